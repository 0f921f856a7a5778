package feed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
)

// Metadata fields that lead back to the cause of an event.
const (
	correlationKey = "correlation_id"
	causationKey   = "causation_id"
)

type causeKey struct{}

// WithCause returns a context that makes e the cause of what is appended. It only keeps e, which an
// append reads, because handlers get such a context for each event.
func WithCause(ctx context.Context, e *Event) context.Context {
	return context.WithValue(ctx, causeKey{}, e)
}

// CauseFields returns the metadata fields that ctx adds to an event that lacks them; nil: none.
func CauseFields(ctx context.Context, e *Event) map[string]string {
	cause, ok := ctx.Value(causeKey{}).(*Event)
	if !ok {
		return nil
	}
	identity := cause.Identity()
	fields := map[string]string{}
	for name, value := range map[string]string{
		correlationKey: cmp.Or(cause.CorrelationID(), identity), causationKey: identity,
	} {
		if !bytes.Contains(e.Metadata, []byte(`"`+name+`"`)) {
			fields[name] = value
		}
	}
	return fields
}

// CorrelationID returns the metadata's correlation_id: the identity of the first cause, or "".
func (e *Event) CorrelationID() string { return e.metadataText(correlationKey) }

// CausationID returns the metadata's causation_id: the identity of the event's cause, or "".
func (e *Event) CausationID() string { return e.metadataText(causationKey) }

func (e *Event) metadataText(name string) (text string) {
	if !bytes.Contains(e.Metadata, []byte(`"`+name+`"`)) {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Metadata, &fields) != nil || json.Unmarshal(fields[name], &text) != nil {
		return ""
	}
	return text
}
