package feed

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Intent says what an event is for. The zero value means: as the catalogue
// says, and [ProjectionAndReplay] where it says nothing.
type Intent string

// The intents. Projections see only events of intent ProjectionAndReplay;
// events of any intent move the checkpoint.
const (
	ProjectionAndReplay Intent = "projection_and_replay" // applied to read models and replayed
	ReplayOnly          Intent = "replay_only"           // folded by the application, never projected
	AuditOnly           Intent = "audit_only"            // kept for the record
)

// Event is a fact about a campaign.
//
// Append reads the first group of fields; the journal fills in the second when
// it answers a read, and Append ignores it.
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

	CampaignID string    // the campaign it belongs to
	Seq        int64     // its place in the campaign: 1, 2, 3 … without gaps
	Position   int64     // its place in the whole journal; grows, may have gaps
	RecordedAt time.Time // when it was appended, by the database's clock

	unreadable bool  // see Unreadable
	refused    error // see Refuse

	decoded *decoded // the payload decoded once, shared by all copies of the event
}

// Refuse has an append refuse the event, whose payload could not be made.
func Refuse(e *Event, err error) { e.refused = err }

// Refused answers what [Refuse] was told.
func Refused(e *Event) error { return e.refused }
