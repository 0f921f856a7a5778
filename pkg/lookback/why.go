package lookback

import (
	"encoding/json"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// WhyRequest names a row of a campaign. Across campaigns CampaignID is a key, and Seq a position.
type WhyRequest struct {
	Projection string
	CampaignID string
	Table      string // "": the projection's only one
	// values of the primary key without campaign_id, in column order: as text, or as the text of the row's JSON
	Key []string
	Seq int64 // as of this event; 0: the last event
}

// Why names the events that wrote a row's current values.
type Why struct {
	Projection string
	Table      string
	CampaignID string
	Seq        int64           // the last event applied
	Key        json.RawMessage // an object: the primary key
	Row        json.RawMessage // an object; nil: no such row
	Causes     []Cause         // one per column, in order
	Gone       *event.Event    // if the row is missing: the event that deleted it; nil: it never existed
}

// Cause is the event that set a column to its current value.
type Cause struct {
	Column string
	Value  json.RawMessage
	Event  event.Event
}
