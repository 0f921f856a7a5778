package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// WithCause returns a context that makes e the cause of events appended with it. Their metadata
// gets causation_id, the [event.Event.Identity] of e, and correlation_id, e's own or else its identity.
// Fields that an event already has are kept. Handlers of a projection get such a context. A repeated append
// with the same event ids needs the same cause. [event.Event.CorrelationID] and [event.Event.CausationID] read
// the fields; publishers send them.
func WithCause(ctx context.Context, e event.Event) context.Context { return feed.WithCause(ctx, &e) }

// maxNameBytes is the longest event type.
const maxNameBytes = 256

// validate rejects values that would alter the event, or its neighbours, in the call's JSON
// document. The database checks everything else and knows the limits. The error is an
// [InvalidEventError] without campaign and index.
func validate(campaignID string, e *event.Event) error {
	if err := feed.Refused(e); err != nil {
		return invalid(e, "payload", fmt.Sprintf("cannot be encoded: %v", err))
	}
	for _, named := range [...]struct{ field, value string }{
		{"campaign_id", campaignID},
		{"type", e.Type},
		{"intent", string(e.Intent)},
		{"aggregate_type", e.AggregateType},
		{"aggregate_id", e.AggregateID},
		{"actor", e.Actor},
	} {
		if reason := text.CheckText(named.value); reason != "" {
			return invalid(e, named.field, reason)
		}
	}
	for i, tag := range e.Tags {
		if reason := text.CheckText(tag); reason != "" {
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

func invalid(e *event.Event, field, reason string) error {
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

// withFields adds text fields to a JSON object. Anything else is unchanged, for [Append] to refuse.
func withFields(metadata json.RawMessage, fields map[string]string) json.RawMessage {
	object := map[string]json.RawMessage{}
	if len(metadata) > 0 && (json.Unmarshal(metadata, &object) != nil || object == nil) {
		return metadata
	}
	for name, value := range fields {
		object[name], _ = json.Marshal(value) // a string never fails
	}
	all, err := json.Marshal(object)
	if err != nil {
		return metadata
	}
	return all
}
