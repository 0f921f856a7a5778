package sqlfile

import (
	"encoding/json"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// eventField is a field that an SQL file may use after "event.".
type eventField struct {
	name   string
	cast   string // the type of its parameter
	column string // the same value, from a row j of the journal and its campaign c
	value  func(*journal.Event) any
}

// emptyObject replaces a missing payload or metadata, so that ->> always meets an object.
const emptyObject = "{}"

// eventFields returns the fields in the order in which messages and documents list them. Values
// have types that pgx sends without conversion: json.RawMessage is copied as it is, while other
// JSON types would be marshalled once more.
func eventFields() []eventField {
	return []eventField{
		{"campaign_id", "text", "c.campaign_id", func(e *journal.Event) any { return e.CampaignID }},
		{"seq", "bigint", "j.seq", func(e *journal.Event) any { return e.Seq }},
		{"position", "bigint", `j."position"`, func(e *journal.Event) any { return e.Position }},
		{"event_id", "uuid", "j.event_id", func(e *journal.Event) any { return e.ID.String() }},
		{"event_type", "text", "j.event_type", func(e *journal.Event) any { return e.Type }},
		{"event_version", "int", "j.event_version", func(e *journal.Event) any { return int32(e.Version) }},
		{"aggregate_type", "text", "nullif(j.aggregate_type, '')", func(e *journal.Event) any {
			return textOrNull(e.AggregateType)
		}},
		{"aggregate_id", "text", "nullif(j.aggregate_id, '')", func(e *journal.Event) any {
			return textOrNull(e.AggregateID)
		}},
		{"actor", "text", "nullif(j.actor, '')", func(e *journal.Event) any { return textOrNull(e.Actor) }},
		{"tags", "text[]", "coalesce(j.tags, '{}')", func(e *journal.Event) any { return tagsOrEmpty(e.Tags) }},
		{"payload", "jsonb", "j.payload", func(e *journal.Event) any { return objectOrEmpty(e.Payload) }},
		{"metadata", "jsonb", "coalesce(j.metadata, '{}')", func(e *journal.Event) any { return objectOrEmpty(e.Metadata) }},
		{"occurred_at", "timestamptz", "j.occurred_at", func(e *journal.Event) any { return e.OccurredAt }},
		{"recorded_at", "timestamptz", "j.recorded_at", func(e *journal.Event) any { return e.RecordedAt }},
	}
}

func findEventField(name string) (eventField, bool) {
	for _, f := range eventFields() {
		if f.name == name {
			return f, true
		}
	}
	return eventField{}, false
}

func eventFieldNames() string {
	var names []string
	for _, f := range eventFields() {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func tagsOrEmpty(tags []string) []string {
	if tags == nil {
		return []string{}
	}
	return tags
}

func objectOrEmpty(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage(emptyObject)
	}
	return object
}
