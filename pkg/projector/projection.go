package projector

import (
	"context"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Spec is what the registry knows of a projection.
type Spec struct {
	Name    string   // unique; lower-case letters, digits and underscores
	Version int      // from 1; raise it when the tables or the meaning change
	Types   []string // event types it wants; nil: all
	Tables  string   // DDL that creates its tables and indexes, named without a schema
}

// Projection turns events into rows of its own tables.
//
// Most users take [Document], [Handlers] or an SQL file ([LoadDir]) and never implement it themselves.
type Projection interface {
	// Spec describes the projection. It must not change while a worker runs.
	Spec() Spec

	// Apply writes the effects of group's events through group. Events of a campaign come in the order of their
	// seq; those of several campaigns may be in one group. An error, or the failure of a queued statement, fails the group; the
	// projector then finds the culprit and defers only its campaign for this projection.
	Apply(ctx context.Context, group *Group) error
}

// Loader is implemented by projections that read before they apply. The projector runs the reads of all projections in one round trip.
type Loader interface {
	// Load queues reads with [Group.QueueRead].
	Load(ctx context.Context, group *Group) error
}

// Group is the events a projection applies in one transaction, and the way to write their effects.
// It is valid only during the call that it was passed to, and for one goroutine.
type Group struct {
	Events []journal.Event
	// unexported: batch, tx …
}
