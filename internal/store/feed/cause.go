package feed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"
)

// Metadata fields that lead back to the cause of an event.
const (
	correlationKey = "correlation_id"
	causationKey   = "causation_id"
	depthKey       = "causation_depth"
)

// MostDepth is how many events of a chain of causes processes may append, each in reaction to the
// one before.
const MostDepth = 16

type (
	causeKey    struct{}
	reactionKey struct{}
)

// WithReaction is [WithCause] for what a process appends: the chain of causes gets longer.
func WithReaction(ctx context.Context, e *Event) context.Context {
	return context.WithValue(WithCause(ctx, e), reactionKey{}, true)
}

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
	if depth := cause.CausationDepth(); depth > 0 || ctx.Value(reactionKey{}) != nil {
		fields[depthKey] = strconv.Itoa(depth + 1)
	}
	return fields
}

// CausationDepth returns how many processes led to the event, one reacting to the other.
func (e *Event) CausationDepth() int {
	depth, err := strconv.Atoi(e.metadataText(depthKey))
	if err != nil {
		return 0
	}
	return depth
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
