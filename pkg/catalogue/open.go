package catalogue

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

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

// open appends what [dataKey.seal] has sealed at a place.
func (k *dataKey) open(buf, encoded, at []byte) ([]byte, error) {
	sealed, err := base64.StdEncoding.AppendDecode(make([]byte, 0, len(encoded)), encoded)
	if err != nil {
		return nil, err
	}
	return openGCM(k.aead, buf, sealed, at)
}
