package feed

import (
	"bytes"
	"cmp"
	"context"
	"strconv"

	"github.com/tidemark-go/tidemark/pkg/event"
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
func WithReaction(ctx context.Context, e *event.Event) context.Context {
	return context.WithValue(WithCause(ctx, e), reactionKey{}, true)
}

// WithCause returns a context that makes e the cause of what is appended. It only keeps e, which an
// append reads, because handlers get such a context for each event.
func WithCause(ctx context.Context, e *event.Event) context.Context {
	return context.WithValue(ctx, causeKey{}, e)
}

// CauseFields returns the metadata fields that ctx adds to an event that lacks them; nil: none.
func CauseFields(ctx context.Context, e *event.Event) map[string]string {
	cause, ok := ctx.Value(causeKey{}).(*event.Event)
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
