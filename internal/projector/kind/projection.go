package kind

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Spec is projector.Spec.
type Spec struct {
	Name    string   // unique in the database; lower-case letters, digits and underscores, up to 63
	Version int      // from 1; raise it when the tables or the meaning change
	Types   []string // event types it wants, by their current names; nil: all
	Tables  string   // DDL that creates its tables and indexes, named without a schema

	// what becomes of events that it cannot apply; zero fields: as [Config].OnFailure says
	OnFailure   Policy
	OnFailureOf map[string]Policy  // the same for events of a type; zero fields: as OnFailure says
	Classify    failure.Classifier // where it knows better than [Classify]; nil: nowhere
}

// Projection is projector.Projection.
type Projection interface {
	// Spec describes the projection. It must not change while a worker runs.
	Spec() Spec

	// Apply writes the effects of group's events through group. Events of a campaign come in the order
	// of their seq; those of several campaigns may be in one group. An error, or the failure of a
	// queued statement, fails the group; the projector then finds the culprit and defers only its
	// campaign for this projection.
	Apply(ctx context.Context, group *Group) error
}

// Loader is projector.Loader.
type Loader interface {
	// Load queues reads with [Group.Queue]. Apply follows, with a group of the same events.
	Load(ctx context.Context, group *Group) error
}

// CheckSpec finds the mistakes of a name and a version.
func CheckSpec(s Spec) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`).MatchString(s.Name) {
		return fmt.Errorf("projection name %q: use 1 to 63 lower-case letters, digits and underscores, a letter first",
			s.Name)
	}
	if s.Version < 1 {
		return fmt.Errorf("projection %s: version is %d, versions start at 1", s.Name, s.Version)
	}
	return nil
}

// Resetter is projector.Resetter.
type Resetter interface {
	// Reset deletes, through group, all that the projection keeps of the campaigns. Their events
	// follow from the first one on, in the same transaction. group has no events.
	Reset(ctx context.Context, group *Group, campaignIDs []string) error
}

// Checker is projector.Checker.
type Checker interface {
	// Check looks for mistakes. tx is rolled back.
	Check(ctx context.Context, tx pgx.Tx) error
}

// EachEvent applies one event of a projection that takes its events one by one. What it does about
// one follows from that one.
type EachEvent func(ctx context.Context, g *Group, e journal.Event) error

// Eventwise answers how the projection takes its events one by one; nil: it does not.
func Eventwise(p Projection) EachEvent {
	switch p := p.(type) {
	case interface {
		ApplyEvent(ctx context.Context, g *Group, e journal.Event) error
	}:
		return p.ApplyEvent
	case *Handlers:
		return p.applyEvent
	}
	return nil
}

// ErrIntricate says that a projection's statements cannot be cut into parts: it looks at results, or
// queues for several events at once, or too many different statements, or what becomes of them is
// known at the end.
var ErrIntricate = errors.New("the projection's statements cannot be cut into parts")
