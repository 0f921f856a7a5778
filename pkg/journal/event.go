package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admission"
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

// validate rejects values that would alter the event, or its neighbours, in the call's JSON
// document. The database checks everything else and knows the limits. A refusal is an [*admission.Fault].
func validate(campaignID string, e *event.Event) error {
	if err := feed.Refused(e); err != nil {
		return &admission.Fault{Field: "payload", Reason: fmt.Sprintf("cannot be encoded: %v", err)}
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
			return &admission.Fault{Field: named.field, Reason: reason}
		}
	}
	for i, tag := range e.Tags {
		if reason := text.CheckText(tag); reason != "" {
			return &admission.Fault{Field: fmt.Sprintf("tags[%d]", i), Reason: reason}
		}
	}
	if reason := text.CheckObject(e.Payload); reason != "" {
		return &admission.Fault{Field: "payload", Reason: reason}
	}
	if reason := text.CheckObject(e.Metadata); reason != "" {
		return &admission.Fault{Field: "metadata", Reason: reason}
	}
	return nil
}

// refused makes the [InvalidEventError] of a fault.
func refused(err error, campaignID string, index int, e *event.Event) error {
	if fault, ok := errors.AsType[*admission.Fault](err); ok {
		return &InvalidEventError{campaignID, index, e.Type, fault.Field, fault.Reason}
	}
	return err
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
