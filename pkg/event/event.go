package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/eventstate"
)

// Intent is what an event is for. Zero: the catalogue's, or [ProjectionAndReplay] if it has none.
type Intent string

// The intents. Projections get only ProjectionAndReplay; events of any intent move the checkpoint.
const (
	ProjectionAndReplay Intent = "projection_and_replay" // applied to read models and replayed
	ReplayOnly          Intent = "replay_only"           // folded by the application, never projected
	AuditOnly           Intent = "audit_only"            // kept for the record
)

// Event is a fact about a campaign. Appends read the first group of fields and ignore the second, which
// reads fill in. Copies of an event that was read share its slices: do not change them.
type Event struct {
	ID            uuid.UUID       // unique in its campaign; zero: a new UUIDv7
	Type          string          // such as "character_created", 1 to 256 bytes; required
	Version       int             // of the payload's shape, from 1; zero: the catalogue's current one, or 1
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

	state eventstate.State
}

func init() { //nolint:gochecknoinits // the engines' way to the state
	eventstate.Of = func(e any) *eventstate.State { return &e.(*Event).state }
}

// Erased reports whether an operator has erased the event: its payload, or the personal fields of it, is
// gone.
func (e *Event) Erased() bool {
	const mark = `"$erased":` // quotes within texts are escaped
	if opened := e.state.Opened; opened != nil && opened.Gone {
		return true
	}
	if !bytes.Contains(e.Metadata, []byte(mark)) {
		return false
	}
	var metadata map[string]json.RawMessage // the mark of an object within does not count
	return json.Unmarshal(e.Metadata, &metadata) == nil && metadata["$erased"] != nil
}

// Unreadable returns an [*UnreadableError] if Postgres could not return payload and metadata, which are nil
// then, and an [*ArchivedError] if the archive could not.
func (e *Event) Unreadable() error {
	switch {
	case e.state.Archived:
		return e.state.Refused
	case !e.state.Unreadable:
		return nil
	}
	return &UnreadableError{Campaign: e.CampaignID, Seq: e.Seq, Position: e.Position}
}

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

// ParseIdentity parses an [Event.Identity] and rejects everything else. A UUID alone is an event
// without a campaign, as other senders have them.
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
