package projector

import (
	"context"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Delete is what the Fold of a [Document] returns to delete the document. A later event may make it
// anew, from the zero T.
var Delete = kind.Delete

// Document is a projection that keeps one JSON document for each key of a campaign. A group's
// documents are read in one query, folded in memory and written once each, however many events they
// get: it is the fastest kind.
//
// The table has the projection's name and the columns campaign_id, key and doc (jsonb), with the
// primary key (campaign_id, key).
type Document[T any] = kind.Document[T]

// NewDocument returns the projection that d describes.
func NewDocument[T any](d Document[T]) Projection {
	return kind.NewDocument(d)
}

// Group is the events that a projection applies in one transaction, and the way to write their
// effects. It is valid only during the call that it was passed to, and for one goroutine: to a projection that did
// not return within its timeout [Group.Tx] answers an error, and whatever it still does has no effect.
type Group = kind.Group

// Handlers is a projection made of one function for each event type. Add them with [On] before it is used.
type Handlers = kind.Handlers

// NewHandlers returns a projection without handlers. spec.Types is taken from the handlers added to it.
func NewHandlers(spec Spec) *Handlers {
	return kind.NewHandlers(spec)
}

// On adds the handler of an event type, replacing an earlier one. The payload is decoded into T
// (encoding/json); projections that decode the same event into the same type share the value, and
// must not change it. The handler queues its writes ([Group.Queue]) or uses the transaction
// ([Group.Tx]). Its context names the event as the cause of what it appends, and ends with the call:
// a goroutine that goes on must not use it.
func On[T any](
	h *Handlers, eventType journal.Type[T],
	handle func(ctx context.Context, group *Group, e journal.Event, payload T) error,
) {
	kind.On(h, eventType, handle)
}

// Mode is how the events of a consumer group come to its projections.
type Mode = kind.Mode

// The modes.
const (
	ModeOutboxApplyOnly = kind.ModeOutboxApplyOnly // appends enqueue, workers apply; the default
	// appends apply ([Projector.ApplyInline]) and do not enqueue; Run brings forward what is behind
	ModeInlineApplyOnly = kind.ModeInlineApplyOnly
	ModeShadowOnly      = kind.ModeShadowOnly  // appends enqueue, Run applies and rolls everything back
	ModeEnqueueOnly     = kind.ModeEnqueueOnly // appends enqueue, Run registers the group and applies nothing
)

// Action is what becomes of a failure that is not the infrastructure's.
type Action = kind.Action

// The actions.
const (
	// the pair waits and is tried again; it is dead after so many attempts, and at once if the failure is permanent
	ActionRetry = kind.ActionRetry
	ActionDead  = kind.ActionDead // the pair is dead at once
	ActionSkip  = kind.ActionSkip // the projection goes on without the event; the failure log and a counter say so
	// the pair waits, and the projection pauses for all campaigns until it is resumed, which tries
	// again; nothing is ever dead
	ActionPause = kind.ActionPause
)

// Policy says what becomes of failures. Zero fields are taken from the next wider policy: that of
// an event type ([Spec].OnFailureOf) from the projection's ([Spec].OnFailure), that from
// [Config].OnFailure, that from the defaults.
type Policy = kind.Policy

// Spec is what the registry knows of a projection.
type Spec = kind.Spec

// Projection turns events into rows of its own tables.
//
// Most users take [NewDocument], [NewHandlers] or SQL files (package sqlfile) and never implement it
// themselves. An implementation may be called from several goroutines at once, with different
// campaigns, and must keep no state of its own between calls: what it knows of earlier events it reads
// from its tables.
type Projection = kind.Projection

// Loader is implemented by projections that read before they apply. The reads of all projections share one round trip.
type Loader = kind.Loader

// Resetter is implemented by projections whose rows are deleted in a way of their own when a
// campaign is replayed from scratch. For all others the rows of the campaign, by the column
// campaign_id, are deleted from each table that the projection has created, the tables created last
// first.
type Resetter = kind.Resetter

// Checker is implemented by projections that can find mistakes before the first event.
type Checker = kind.Checker

// Tx is the group's transaction in the hands of a projection. It cannot be ended: return an error
// to roll it back, nil to let it commit.
type Tx = kind.Tx

// VerifyRequest says what [Projector.Verify] looks at: the campaigns named, or a sample, or all.
type VerifyRequest = replay.VerifyRequest

// VerifyReport counts what [Projector.Verify] has looked at and found.
type VerifyReport = replay.VerifyReport

// WhyRequest names a row of a campaign.
type WhyRequest = replay.WhyRequest
