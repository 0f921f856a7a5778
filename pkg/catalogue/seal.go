package catalogue

import (
	"bytes"
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/admission"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Sealed returns a copy of c whose personal fields are sealed when events are appended, and opened where
// a projector reads. An append with a personal field and without a subject is then refused. A subject is
// the first of the type's subject fields that has a text or a whole number.
func (c *Catalogue) Sealed(s *Sealer) *Catalogue {
	sealed := *cmp.Or(c, &Catalogue{})
	sealed.sealer = s
	return &sealed
}

// Sealer returns what seals the personal fields; nil: nothing does.
func (c *Catalogue) Sealer() *Sealer {
	if c == nil {
		return nil
	}
	return c.sealer
}

// A sealed field as Postgres prints it: the head, the key's id, the middle, base64, and the tail. No
// text has the middle within, because quotes are escaped there.
const (
	sealedHead, sealedMiddle, sealedTail = `{"key": "`, `", "$sealed": "`, `"}`
	uuidBytes                            = 36
)

// dataKey is the key of a subject.
type dataKey struct {
	id    string
	aead  cipher.AEAD
	nonce []byte // a key too
}

func newDataKey(id string, plain []byte) (*dataKey, error) {
	aead, err := newGCM(plain)
	return &dataKey{id: id, aead: aead, nonce: sum(plain, []byte("tidemark nonce"))}, err
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// place is what a sealed field is bound to. A campaign has no NUL.
func place(campaignID string, id uuid.UUID, path string) []byte {
	return append(id[:], path+"\x00"+campaignID...)
}

// seal seals a value at a place. The nonce depends on both: an append that is repeated is then the same.
func (k *dataKey) seal(value json.RawMessage, at []byte) json.RawMessage {
	var plain bytes.Buffer
	_ = json.Compact(&plain, value) // it was decoded
	nonce := sum(k.nonce, []byte(strconv.Itoa(len(at))), at, plain.Bytes())[:k.aead.NonceSize()]
	sealed := base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, plain.Bytes(), at))
	return json.RawMessage(`{"$sealed":"` + sealed + `","key":"` + k.id + `"}`)
}

// keysOf returns the keys that the personal fields of an append's events are sealed with, by subject.
func (c *Catalogue) keysOf(
	ctx context.Context, tx event.Querier, batches [][]event.Event,
) (map[string]*dataKey, error) {
	if c == nil || c.sealer == nil {
		return nil, nil
	}
	var subjects []string
	for _, events := range batches {
		for i := range events {
			t := c.find(events[i].Type)
			if t == nil || len(t.sealed) == 0 {
				continue
			}
			if o, err := decodeObject(events[i].Payload); err == nil && len(t.toSeal(o)) > 0 {
				subjects = append(subjects, t.subject(o)...)
			}
		}
	}
	if len(subjects) == 0 {
		return nil, nil
	}
	slices.Sort(subjects)
	return c.sealer.keysFor(ctx, tx, slices.Compact(subjects))
}

// seal seals the personal fields of an event that was admitted.
func (c *Catalogue) seal(campaignID string, e *event.Event, keys map[string]*dataKey) error {
	if c == nil || c.sealer == nil {
		return nil
	}
	t := c.find(e.Type)
	if t == nil || len(t.sealed) == 0 || len(e.Payload) == 0 {
		return nil
	}
	o, err := decodeObject(e.Payload)
	if err != nil {
		return &admission.Fault{Field: "payload", Reason: err.Error()}
	}
	paths := t.toSeal(o)
	if len(paths) == 0 {
		return nil
	}
	subject := t.subject(o)
	if len(subject) == 0 {
		return &admission.Fault{Field: "payload", Reason: fmt.Sprintf(
			"has personal fields (%s) and no subject (%s): give it one, whose key seals them", strings.Join(paths, ", "),
			cmp.Or(strings.Join(t.Subject, ", "), "the catalogue names no field for it"))}
	}
	if e.ID == uuid.Nil {
		e.ID = uuid.Must(uuid.NewV7())
	}
	for _, path := range paths {
		o.through(strings.Split(path, "."), "", func(parent object, name, at string) {
			if value, there := parent[name]; there && !feed.IsSealed(value) {
				parent[name] = keys[subject[0]].seal(value, place(campaignID, e.ID, at))
			}
		})
	}
	e.Payload, err = encodeJSON(o)
	return err
}

// toSeal returns the paths of the personal fields that an object has, and that are not sealed.
func (t *catalogued) toSeal(o object) (paths []string) {
	for _, path := range slices.Compact(slices.Sorted(slices.Values(t.sealed))) {
		if len(paths) > 0 && strings.HasPrefix(path, paths[len(paths)-1]+".") {
			continue // it is sealed with the field that has it
		}
		open := false
		o.through(strings.Split(path, "."), "", func(parent object, name, _ string) {
			value, there := parent[name]
			open = open || there && !feed.IsSealed(value)
		})
		if open {
			paths = append(paths, path)
		}
	}
	return paths
}

// subject returns the subject of a payload; nil: it has none.
func (t *catalogued) subject(o object) (subject []string) {
	for _, path := range t.Subject {
		_ = o.at(strings.Split(path, "."), false, func(parent object, name string) error {
			var text string
			var number int64
			switch value := parent[name]; {
			case len(subject) > 0 || len(value) == 0 || bytes.Equal(value, []byte("null")):
			case json.Unmarshal(value, &text) == nil && text != "":
				subject = []string{text}
			case json.Unmarshal(value, &number) == nil:
				subject = []string{strconv.FormatInt(number, 10)}
			}
			return nil
		})
	}
	return subject
}
