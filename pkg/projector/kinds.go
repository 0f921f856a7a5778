package projector

import (
	"context"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Delete is returned by the Fold of a [Document] to delete the document. A later event may recreate it.
var Delete = kind.Delete

// Document is a projection that keeps one JSON document per key of a campaign. A group's documents
// are read in one query, folded in memory and written once each, so it is the fastest kind.
//
// The table has the projection's name and the columns campaign_id, key and doc (jsonb), with the
// primary key (campaign_id, key).
type Document[T any] = kind.Document[T]

// NewDocument returns the projection that d describes.
func NewDocument[T any](d Document[T]) Projection {
	return kind.NewDocument(d)
}

// Group holds the events that a projection applies in one transaction, and writes their effects. It
// is valid only during the call it is passed to, and for one goroutine. After the projection's
// timeout [Group.Tx] returns an error, and further calls have no effect.
type Group = kind.Group

// Handlers is a projection of one function per event type. Add them with [On] before it is used.
type Handlers = kind.Handlers

// NewHandlers returns a projection without handlers. spec.Types comes from the handlers added to it.
func NewHandlers(spec Spec) *Handlers {
	return kind.NewHandlers(spec)
}

// On adds the handler of an event type, replacing an earlier one. The payload is decoded into T
// (encoding/json). Projections that decode the same event into the same type share the value, and
// must not change it. The handler queues its writes ([Group.Queue]) or uses the transaction
// ([Group.Tx]). Its context names the event as the cause of any events it appends, and ends with
// the call.
func On[T any](
	h *Handlers, eventType event.Type[T],
	handle func(ctx context.Context, group *Group, e event.Event, payload T) error,
) {
	kind.On(h, eventType, handle)
}

// Mode decides how the events of a consumer group reach its projections.
type Mode = kind.Mode

// The modes.
const (
	ModeOutboxApplyOnly = kind.ModeOutboxApplyOnly // appends enqueue, workers apply; the default
	// appends apply ([Projector.ApplyInline]) and do not enqueue; Run brings failed campaigns forward
	ModeInlineApplyOnly = kind.ModeInlineApplyOnly
	ModeShadowOnly      = kind.ModeShadowOnly  // appends enqueue, Run applies and rolls back
	ModeEnqueueOnly     = kind.ModeEnqueueOnly // appends enqueue, Run registers the group and applies nothing
)

// Action is the response to a failure that is not the infrastructure's.
type Action = kind.Action

// The actions.
const (
	// the campaign is retried; it is dead after Policy.Attempts failures, or at once if the failure is permanent
	ActionRetry = kind.ActionRetry
	ActionDead  = kind.ActionDead // the campaign is dead at once
	ActionSkip  = kind.ActionSkip // the projection skips the event; the failure log and a counter record it
	// the campaign waits, and the projection pauses for all campaigns until it is resumed; nothing is ever dead
	ActionPause = kind.ActionPause
)

// Policy decides what to do about failures. Zero fields come from the next wider policy: event type
// ([Spec].OnFailureOf), projection ([Spec].OnFailure), [Config].OnFailure, defaults.
type Policy = kind.Policy

// Process is a projection across campaigns that keeps a state for each key, and reacts to events by
// appending others, to its own campaign or to another one, at once or at a time. The state, the place
// and the appends commit in one transaction; workers then make the appends, which hold no lock of a
// campaign meanwhile. So each reaction happens exactly once.
//
// A new process folds the events before it, and reacts only to later ones. A rebuild folds and does
// not react. An event at the end of a chain of 16 reactions is dead.
type Process[S any] = kind.Process[S]

// Do is what a process does about an event: it appends events, or cancels a timer.
type Do = kind.Do

// NewProcess returns a process.
func NewProcess[S any](p Process[S]) Projection { return kind.NewProcess(p) }

// Spec describes a projection to the registry.
type Spec = kind.Spec

// Scope is which events a projection sees, and in which order.
type Scope = kind.Scope

// The scopes.
const (
	// ScopeCampaign: the events of each campaign in the order of seq; campaigns are applied side by
	// side. The default. campaign_id is in the keys of the tables.
	ScopeCampaign = kind.ScopeCampaign
	// ScopeJournal: the events of all campaigns in the order of position, below the writer floor, for
	// read models across campaigns. An event that fails holds back its key ([Spec].Key).
	ScopeJournal = kind.ScopeJournal
)

// Projection turns events into rows of its own tables.
//
// Most users take [NewDocument], [NewHandlers] or SQL files (package sqlfile) and never implement
// it. An implementation may be called from several goroutines at once, with different campaigns. It
// must keep no state between calls; read earlier results from its tables.
type Projection = kind.Projection

// Loader is implemented by projections that read before they apply. The reads of all projections share one round trip.
type Loader = kind.Loader

// Resetter is implemented by projections that delete their rows in their own way when a campaign is
// replayed from scratch. For others, the campaign's rows are deleted by the column campaign_id from
// each table that the projection created, last created first.
type Resetter = kind.Resetter

// Checker is implemented by projections that can find mistakes before the first event.
type Checker = kind.Checker

// Tx is a projection's access to the group's transaction. Return an error to roll it back, nil to let it commit.
type Tx = kind.Tx

// VerifyRequest chooses the campaigns for [Projector.Verify]: named ones, a sample, or all.
type VerifyRequest = replay.VerifyRequest

// VerifyReport holds the counts of [Projector.Verify].
type VerifyReport = replay.VerifyReport

// WhyRequest names a row of a campaign.
type WhyRequest = replay.WhyRequest
