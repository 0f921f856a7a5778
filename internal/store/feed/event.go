package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/fastjson"
)

// Intent is [journal.Intent].
type Intent string

// The intents.
const (
	ProjectionAndReplay Intent = "projection_and_replay" // applied to read models and replayed
	ReplayOnly          Intent = "replay_only"           // folded by the application, never projected
	AuditOnly           Intent = "audit_only"            // kept for the record
)

// Event is [journal.Event]. Append reads the first group of fields; reads fill in the second.
type Event struct {
	ID            uuid.UUID       // unique in its campaign; zero: a new UUIDv7
	Type          string          // e.g. "character_created"; required
	Version       int             // version of the payload's shape, from 1; zero: the catalogue's current one, or 1
	Intent        Intent          // zero: the catalogue's, or ProjectionAndReplay
	AggregateType string          // optional
	AggregateID   string          // optional
	Actor         string          // who caused it; optional
	Tags          []string        // "key" or "key=value"; optional
	Payload       json.RawMessage // a JSON object; nil: {}
	Metadata      json.RawMessage // a JSON object; nil: {}
	OccurredAt    time.Time       // zero: the time of the append, by the database's clock

	CampaignID string    // the campaign of the event
	Seq        int64     // its place in the campaign: 1, 2, 3 … without gaps
	Position   int64     // its place in the whole journal; grows, may have gaps
	RecordedAt time.Time // when it was appended, by the database's clock

	unreadable bool  // see Unreadable
	archived   bool  // only a stub, whose version is 0
	refused    error // see Refuse

	decoded *decoded // the payload, decoded once for all copies of the event
	opened  *opened  // nil: the payload is as stored
}

// opened is what [Open] leaves of a payload with sealed fields.
type opened struct {
	stored json.RawMessage // with the fields sealed
	gone   bool            // the key of one of them is deleted
}

// Notice is the type of the event that tells consumers of erased ones. Appends of it are refused.
const Notice = "events_erased"

// Erased reports whether an operator has erased the event: its payload, or the personal fields of it, is
// gone.
func (e *Event) Erased() bool {
	const mark = `"$erased":` // quotes within texts are escaped
	if e.opened != nil && e.opened.gone || !bytes.Contains(e.Metadata, []byte(mark)) {
		return e.opened != nil && e.opened.gone
	}
	var metadata map[string]json.RawMessage // the mark of an object within does not count
	return json.Unmarshal(e.Metadata, &metadata) == nil && metadata["$erased"] != nil
}

// ErasedBy returns the number of the last erasure that has taken something of an event, "" if none has.
func ErasedBy(e *Event) string {
	if !bytes.Contains(e.Metadata, []byte(`"$erased":`)) {
		return ""
	}
	var metadata struct {
		Erased json.RawMessage `json:"$erased"`
	}
	_ = json.Unmarshal(e.Metadata, &metadata)
	return string(metadata.Erased)
}

// Open gives an event a payload whose sealed fields are open, and keeps the stored one. gone: the key
// of a field is deleted, so that the field is absent.
func Open(e *Event, payload, stored json.RawMessage, gone bool) {
	e.Payload, e.opened = payload, &opened{stored, gone}
	ForgetDecoded(e)
}

// Stored returns the payload with sealed fields as they are in the journal.
func Stored(e *Event) json.RawMessage {
	if e.opened == nil {
		return e.Payload
	}
	return e.opened.stored
}

// Close undoes [Open] for one copy of an event.
func Close(e *Event) {
	if e.opened != nil {
		e.Payload, e.opened = e.opened.stored, nil
		ForgetDecoded(e)
	}
}

// Opened reports whether [Open] was called.
func Opened(e *Event) bool { return e.opened != nil }

// Refuse makes an append refuse the event, whose payload could not be encoded.
func Refuse(e *Event, err error) { e.refused = err }

// Refused returns the error passed to [Refuse].
func Refused(e *Event) error { return e.refused }

// uuidBytes is the length of a UUID's text.
const uuidBytes = 36

// Identity identifies an event globally: its id, a slash, and its campaign's id, percent-encoded,
// as "018c5f3e-0000-7000-8000-000000000001/camp%2F1". It is ASCII without spaces and dots.
func (e *Event) Identity() string {
	if e.CampaignID == "" {
		return e.ID.String()
	}
	// A webhook-id must not have dots: they separate the parts of the signed content.
	return e.ID.String() + "/" + strings.ReplaceAll(url.PathEscape(e.CampaignID), ".", "%2E")
}

// IdentityUUID is the identity where only a UUID fits: version 5, the campaign's id in the
// namespace of the event's id.
func (e *Event) IdentityUUID() uuid.UUID { return uuid.NewSHA1(e.ID, []byte(e.CampaignID)) }

// ParseIdentity is [journal.ParseIdentity].
func ParseIdentity(identity string) (campaignID string, eventID uuid.UUID, err error) {
	id, campaign, found := strings.Cut(identity, "/")
	if len(id) != uuidBytes {
		return "", uuid.Nil, fmt.Errorf("identity %.300q does not begin with the 36 characters of a UUID", identity)
	}
	e := Event{}
	if e.ID, err = uuid.Parse(id); err == nil && found {
		e.CampaignID, err = url.PathUnescape(campaign)
	}
	if err != nil {
		return "", uuid.Nil, fmt.Errorf("identity %.300q: %w", identity, err)
	}
	if e.ID == uuid.Nil || e.Identity() != identity {
		return "", uuid.Nil, fmt.Errorf("identity %.300q is not one of an event: want UUID/CAMPAIGN", identity)
	}
	return e.CampaignID, e.ID, nil
}

// Decode is [journal.Decode].
func Decode[T any](e Event) (T, error) {
	if err := e.Unreadable(); err != nil {
		return *new(T), err
	}
	if v, ok := e.decoded.get().(*T); ok {
		return *v, nil
	}
	v := new(T)
	if len(e.Payload) > 0 {
		var err error
		if v, err = fastjson.New[T](e.Payload); err != nil {
			return *v, &DecodeError{Type: e.Type, Err: err}
		}
	}
	e.decoded.set(v)
	return *v, nil
}

// decoded holds a pointer to a decoded payload. A nil *decoded holds nothing.
type decoded struct {
	mu    sync.Mutex
	value any
}

func (d *decoded) get() any {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.value
}

func (d *decoded) set(value any) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value = value
}

// ForgetDecoded drops the decoded payload of an event whose payload has changed.
func ForgetDecoded(e *Event) { e.decoded = new(decoded) }
