package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// Event is a fact about a campaign.
//
// Append reads ID (zero: a new UUIDv7), Type (required), Version (zero: the catalogue's current
// one, or 1), Intent, AggregateType, AggregateID, Actor, Tags ("key" or "key=value"), Payload and
// Metadata (JSON objects; nil: {}), and OccurredAt (zero: the time of the append, by the database's
// clock).
//
// Reads also fill in CampaignID, Seq (the place in the campaign: 1, 2, 3 … without gaps), Position
// (the place in the whole journal; it grows and may have gaps) and RecordedAt. Append ignores these
// four.
//
// Identity and IdentityUUID identify an event globally. Unreadable returns an [*UnreadableError] if
// Postgres could not return payload and metadata.
type Event = feed.Event

// Intent is what an event is for. Zero: the catalogue's, or [ProjectionAndReplay] if it has none.
type Intent = feed.Intent

// The intents. Projections get only ProjectionAndReplay; events of any intent move the checkpoint.
const (
	ProjectionAndReplay = feed.ProjectionAndReplay // applied to read models and replayed
	ReplayOnly          = feed.ReplayOnly          // folded by the application, never projected
	AuditOnly           = feed.AuditOnly           // kept for the record
)

// ParseIdentity parses an [Event.Identity] and rejects everything else. A UUID alone is an event
// without a campaign, as other senders have them.
func ParseIdentity(identity string) (campaignID string, eventID uuid.UUID, err error) {
	return feed.ParseIdentity(identity)
}

// WithCause returns a context that makes e the cause of events appended with it. Their metadata
// gets causation_id, the [Event.Identity] of e, and correlation_id, e's own or else its identity.
// Fields that an event already has are kept. Handlers of a projection ([projector.On]) get such a
// context. A repeated append with the same event ids needs the same cause. [Event.CorrelationID]
// and [Event.CausationID] read the fields; publishers send them.
func WithCause(ctx context.Context, e Event) context.Context { return feed.WithCause(ctx, &e) }

// Decode decodes an event's payload. Copies of an event read from the journal share the result for
// the last T requested, so several projections decode a type once. They must not change the value.
// A payload that does not fit is a [DecodeError].
func Decode[T any](e Event) (T, error) { return feed.Decode[T](e) }

// DecodeError is returned by [Decode] for a payload that does not fit the requested type. Type is
// the event's; Err is the error of encoding/json, which may quote the payload.
type DecodeError = feed.DecodeError

// Query selects the events, of any campaign, that at least one of its Items selects. Without items
// it selects every event. Or joins queries; Matches reports whether the query selects an event.
type Query = feed.Query

// Item selects the events that have one of its Types and all of its Tags. An empty list matches all.
type Item = feed.Item

// Types selects the events of these types, whatever their tags.
func Types(types ...string) Query { return feed.Types(types...) }

// Tagged selects the events that have all of these tags, of one of the types if any are given.
func Tagged(tags []string, types ...string) Query { return feed.Tagged(tags, types...) }

// Type is the name of an event type, with the Go type T of its payload. It makes events, decodes
// them, and gives projector.On the payload's type:
//
//	const Wounded journal.Type[Wound] = "hero_wounded"
//
// string(Wounded) is the name, as for a catalogue.
type Type[T any] string

// New returns an event of the type. The caller sets its other fields, such as tags. Append refuses
// a payload that encoding/json cannot encode, with an [InvalidEventError].
func (t Type[T]) New(payload T) Event {
	e := Event{Type: string(t)}
	var err error
	if e.Payload, err = json.Marshal(payload); err != nil {
		feed.Refuse(&e, err)
	}
	return e
}

// Decode is [Decode] for an event of the type. For an event of another type it returns a [DecodeError].
func (t Type[T]) Decode(e Event) (payload T, err error) {
	if e.Type != string(t) {
		return payload, &DecodeError{Type: e.Type, Err: fmt.Errorf("it is not an event of type %s", t)}
	}
	return Decode[T](e)
}

// maxNameBytes is the longest event type.
const maxNameBytes = 256

// validate rejects values that would alter the event, or its neighbours, in the call's JSON
// document. The database checks everything else and knows the limits. The error is an
// [InvalidEventError] without campaign and index.
func validate(campaignID string, e *Event) error {
	if err := feed.Refused(e); err != nil {
		return invalid(e, "payload", fmt.Sprintf("cannot be encoded: %v", err))
	}
	for _, text := range [...]struct{ field, value string }{
		{"campaign_id", campaignID},
		{"type", e.Type},
		{"intent", string(e.Intent)},
		{"aggregate_type", e.AggregateType},
		{"aggregate_id", e.AggregateID},
		{"actor", e.Actor},
	} {
		if reason := feed.CheckText(text.value); reason != "" {
			return invalid(e, text.field, reason)
		}
	}
	for i, tag := range e.Tags {
		if reason := feed.CheckText(tag); reason != "" {
			return invalid(e, fmt.Sprintf("tags[%d]", i), reason)
		}
	}
	if reason := checkObject(e.Payload); reason != "" {
		return invalid(e, "payload", reason)
	}
	if reason := checkObject(e.Metadata); reason != "" {
		return invalid(e, "metadata", reason)
	}
	return nil
}

func invalid(e *Event, field, reason string) error {
	return &InvalidEventError{Type: e.Type, Field: field, Reason: reason}
}

// checkObject checks a payload or metadata; an empty one stands for {}. The reason never quotes it.
func checkObject(document json.RawMessage) string {
	switch {
	case len(document) == 0:
		return ""
	case !json.Valid(document):
		err := json.Unmarshal(document, new(json.RawMessage))
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Sprintf("is not valid JSON, or nested too deep, at byte %d", syntax.Offset)
		}
		return "is not valid JSON"
	case bytes.TrimLeft(document, " \t\r\n")[0] != '{':
		return "must be a JSON object: wrap the value, as in {\"value\": …}"
	}
	return ""
}
