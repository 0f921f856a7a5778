// Package groupstate is what a group of events carries for the packages that apply it, and what the kinds of
// projections do beyond their interface. Users see none of it.
package groupstate

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// State is a part of each group.
type State struct {
	Projection string
	Comment    string // appended to its statements
	Line       Line

	Keys []string // of the group's events; nil: the projection finds them

	Refuse  Refuse           // takes events that fail one by one; nil: the first fails the group
	Recover func(err *error) // makes a panic of the function that defers it an error; set with Refuse

	Reacting *Reacting   // nil: its process folds and does not react
	Ended    atomic.Bool // the projector no longer waits for the projection
}

// Refuse takes event i of a group, which a projection could not apply. It reports whether the
// projection goes on with the later events of the same key, or false if these wait.
type Refuse func(i int, cause error) (goesOn bool)

// Line takes the statements of a group.
type Line interface {
	// About has the statements queued from now on belong to a projection's event.
	About(projection, campaignID string, seq int64, eventType string)

	// Queue adds a statement.
	Queue(sql string, args ...any) *pgx.QueuedQuery

	// Direct runs what is queued and returns the connection. It returns an error where a group is cut into
	// parts, whose statements must not run yet.
	Direct(ctx context.Context) (*pgx.Conn, error)
}

// Reacting lets a group's process react to events after a position.
type Reacting struct {
	After int64

	// Encode checks events that a process appends, and returns them as the database takes them.
	Encode func(ctx context.Context, db event.Querier, campaignID string, events []event.Event) (string, error)
}

// Of returns the state of a *projection.Group, whose package sets the function.
var Of func(group any) *State //nolint:gochecknoglobals // the way to an unexported field of another package

// Engine returns what applies a projection, if it is one of the kinds of package projection, which sets
// the function. Any other projection is returned as it is.
var Engine func(projection any) any //nolint:gochecknoglobals // the way to unexported methods of another package

// Keys returns how events name their keys, of a projection across campaigns and its *projection.Spec, if its
// events may have several; nil: they have one. takes tells whether the projection then takes an event once for
// each key. Package projection sets the function.
//
//nolint:gochecknoglobals // as above
var Keys func(projection, spec any) (keys func(e event.Event) ([]string, error), takes bool)

// Folder folds groups in memory, campaign by campaign, and writes each result once. G is *projection.Group.
type Folder[G any] interface {
	Add(group G) error
	Write(ctx context.Context, group G, last bool) error // writes the results that are final; with last, all
}
