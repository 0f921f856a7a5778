package projector

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// Spec is what the registry knows of a projection.
type Spec struct {
	Name    string   // unique in the database; lower-case letters, digits and underscores, up to 63
	Version int      // from 1; raise it when the tables or the meaning change
	Types   []string // event types it wants, by their current names; nil: all
	Tables  string   // DDL that creates its tables and indexes, named without a schema

	OnFailure     Policy            // what becomes of events that it cannot apply; zero fields: as [Config].OnFailure says
	OnFailureOf   map[string]Policy // the same for events of a type; zero fields: as OnFailure says
	Classify      Classifier        // where it knows better than [Classify]; nil: nowhere
	SecondChances SecondChances     // default: none
}

// Projection turns events into rows of its own tables.
//
// Most users take [NewDocument], [NewHandlers] or SQL files (package sqlfile) and never implement it
// themselves. An implementation may be called from several goroutines at once, with different
// campaigns, and must keep no state of its own between calls: what it knows of earlier events it reads
// from its tables.
type Projection interface {
	// Spec describes the projection. It must not change while a worker runs.
	Spec() Spec

	// Apply writes the effects of group's events through group. Events of a campaign come in the order of their seq; those of several campaigns may be
	// in one group. An error, or the failure of a queued statement, fails the group; the projector then finds the culprit and defers only its
	// campaign for this projection.
	Apply(ctx context.Context, group *Group) error
}

// Loader is implemented by projections that read before they apply. The reads of all projections share one round trip.
type Loader interface {
	// Load queues reads with [Group.Queue]. Apply follows, with a group of the same events.
	Load(ctx context.Context, group *Group) error
}

// checkSpec finds the mistakes of a name and a version.
func checkSpec(s Spec) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`).MatchString(s.Name) {
		return fmt.Errorf("projection name %q: use 1 to 63 lower-case letters, digits and underscores, a letter first", s.Name)
	}
	if s.Version < 1 {
		return fmt.Errorf("projection %s: version is %d, versions start at 1", s.Name, s.Version)
	}
	return nil
}

// Resetter is implemented by projections whose rows are deleted in a way of their own when a campaign is replayed from scratch. For all others the rows of the
// campaign, by the column campaign_id, are deleted from each table that the projection has created, the tables created last first.
type Resetter interface {
	// Reset deletes, through group, all that the projection keeps of the campaigns. Their events follow from the first one on, in the same transaction. group has no events.
	Reset(ctx context.Context, group *Group, campaignIDs []string) error
}

// Checker is implemented by projections that can find mistakes before the first event.
type Checker interface {
	// Check looks for mistakes. tx is rolled back.
	Check(ctx context.Context, tx pgx.Tx) error
}
