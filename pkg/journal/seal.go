package journal

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
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
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

// sealedIn returns the key's id and the base64 of a stored field; ok: it is a sealed one.
func sealedIn(value []byte) (id string, sealed []byte, ok bool) {
	rest, head := bytes.CutPrefix(value, []byte(sealedHead))
	rest, tail := bytes.CutSuffix(rest, []byte(sealedTail))
	if !head || !tail || len(rest) < uuidBytes || uuid.Validate(string(rest[:uuidBytes])) != nil {
		return "", nil, false
	}
	sealed, ok = bytes.CutPrefix(rest[uuidBytes:], []byte(sealedMiddle))
	return string(rest[:uuidBytes]), sealed, ok && !bytes.ContainsRune(sealed, '"')
}

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

// open appends what [dataKey.seal] has sealed at a place.
func (k *dataKey) open(buf, encoded, at []byte) ([]byte, error) {
	sealed, err := base64.StdEncoding.AppendDecode(make([]byte, 0, len(encoded)), encoded)
	if err != nil {
		return nil, err
	}
	return openGCM(k.aead, buf, sealed, at)
}

// keysOf returns the keys that the events' personal fields are sealed with, by subject.
func (j *Journal) keysOf(ctx context.Context, tx any, batches ...Batch) (map[string]*dataKey, error) {
	if j.cfg.Catalogue == nil || j.cfg.Catalogue.sealer == nil {
		return nil, nil
	}
	var subjects []string
	for _, b := range batches {
		for i := range b.Events {
			t := j.cfg.Catalogue.find(b.Events[i].Type)
			if t == nil || len(t.sealed) == 0 {
				continue
			}
			if o, err := decodeObject(b.Events[i].Payload); err == nil && len(t.toSeal(o)) > 0 {
				subjects = append(subjects, t.subject(o)...)
			}
		}
	}
	if len(subjects) == 0 {
		return nil, nil
	}
	slices.Sort(subjects)
	return j.cfg.Catalogue.sealer.keysFor(ctx, tx, slices.Compact(subjects))
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
		return invalid(e, "payload", err.Error())
	}
	paths := t.toSeal(o)
	if len(paths) == 0 {
		return nil
	}
	subject := t.subject(o)
	if len(subject) == 0 {
		return invalid(e, "payload", fmt.Sprintf("has personal fields (%s) and no subject (%s): give it one, whose key "+
			"seals them", strings.Join(paths, ", "),
			cmp.Or(strings.Join(t.Subject, ", "), "the catalogue names no field for it")))
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

// Seals reports whether [Catalogue.Open] has something to do for an event.
func (c *Catalogue) Seals(e *event.Event) bool {
	return c != nil && c.sealer != nil && !feed.Opened(e) && hasSealed(e.Payload)
}

func hasSealed(payload []byte) bool { return bytes.Contains(payload, []byte(sealedMiddle)) }

// Open opens the sealed fields of events as they are stored, before [Catalogue.Current]. It returns the
// errors of those that do not open by position. Another error is not about one event.
func (c *Catalogue) Open(
	ctx context.Context, db event.Querier, events []event.Event,
) (faults map[int64]error, err error) {
	if c == nil || c.sealer == nil {
		return nil, nil
	}
	return c.sealer.open(ctx, db, events)
}

func (s *Sealer) open(ctx context.Context, db event.Querier, events []event.Event) (faults map[int64]error, err error) {
	var ids []string
	for i := range events {
		rest := events[i].Payload
		for at := bytes.Index(rest, []byte(sealedMiddle)); at >= 0; at = bytes.Index(rest, []byte(sealedMiddle)) {
			if at >= uuidBytes && uuid.Validate(string(rest[at-uuidBytes:at])) == nil {
				ids = append(ids, string(rest[at-uuidBytes:at]))
			}
			rest = rest[at+len(sealedMiddle):]
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	keys, closed, err := s.find(ctx, db, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	for i := range events {
		e := &events[i]
		if !hasSealed(e.Payload) || feed.Opened(e) {
			continue
		}
		o := opening{event: e, keys: keys, closed: closed}
		payload, err := o.object(make([]byte, 0, len(e.Payload)), e.Payload, "")
		if err == nil {
			feed.Open(e, payload, e.Payload, o.gone)
			continue
		}
		if faults == nil {
			faults = map[int64]error{}
		}
		faults[e.Position] = &feed.ClosedError{Err: err}
	}
	return faults, nil
}

// opening opens the fields of one event.
type opening struct {
	event  *event.Event
	keys   map[string]*dataKey
	closed map[string]error // why a key does not open
	gone   bool             // a key is deleted
}

// object appends an object with its sealed fields open, and without those whose key is deleted.
func (o *opening) object(buf []byte, payload json.RawMessage, under string) (_ []byte, err error) {
	fields, err := decodeObject(payload)
	if err != nil {
		return append(buf, payload...), nil // a text
	}
	buf = append(buf, '{')
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		before := len(buf)
		if buf[before-1] != '{' {
			buf = append(buf, ',')
		}
		there := false
		if buf, there, err = o.value(append(text.AppendJSON(buf, name), ':'), fields[name], under+name); err != nil {
			return nil, err
		}
		if !there {
			buf = buf[:before]
		}
	}
	return append(buf, '}'), nil
}

// value appends a value at a place; there: its key is not deleted.
func (o *opening) value(buf []byte, value json.RawMessage, at string) (_ []byte, there bool, err error) {
	if !hasSealed(value) {
		return append(buf, value...), true, nil
	}
	id, sealed, ok := sealedIn(value)
	var list []json.RawMessage
	switch {
	case ok && o.closed[id] != nil:
		return nil, false, fmt.Errorf("event %d of campaign %s: the field %s does not open: %w", o.event.Seq,
			text.Shortened(o.event.CampaignID), text.Shortened(at), o.closed[id])
	case ok && o.keys[id] == nil:
		o.gone = true
		return buf, false, nil
	case ok:
		if buf, err = o.keys[id].open(buf, sealed, place(o.event.CampaignID, o.event.ID, at)); err != nil {
			err = fmt.Errorf("event %d of campaign %s: the field %s does not open with its key %s: it was moved or changed",
				o.event.Seq, text.Shortened(o.event.CampaignID), text.Shortened(at), id)
		}
		return buf, true, err
	case json.Unmarshal(value, &list) != nil:
		buf, err = o.object(buf, value, at+".")
		return buf, true, err
	}
	buf = append(buf, '[')
	for i := range list {
		before := len(buf)
		if buf[before-1] != '[' {
			buf = append(buf, ',')
		}
		if buf, there, err = o.value(buf, list[i], at+"."+strconv.Itoa(i)); err != nil {
			return nil, false, err
		}
		if !there {
			buf = buf[:before]
		}
	}
	return append(buf, ']'), true, nil
}
