package projection

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// Spec describes a projection to the registry. Name and Version are required.
type Spec struct {
	Name    string   // unique in the database; lower-case letters, digits and underscores, up to 63
	Version int      // from 1; raise it when the tables or the meaning change
	Types   []string // event types it wants, by their current names; nil: all
	Tables  string   // DDL that creates its tables and indexes, named without a schema

	Scope Scope // which events it sees, and in which order; default [ScopeCampaign]

	// Key returns the key of an event for a projection across campaigns; "": it does not want the
	// event. An event that fails holds back the later events of its key. nil: all events have one key,
	// so a failure holds back all of them. Key must depend only on the event. An event whose key has more
	// than 1024 bytes, or cannot be stored as text, fails.
	Key func(e event.Event) (string, error)

	// KeyColumn is the column that has the key, in each of the tables. With it one key can be replayed,
	// and its rows be found. Optional.
	KeyColumn string

	// Partitions is how many workers can apply a projection across campaigns at once: each partition
	// has the keys of one hash, and a place of its own. Default 1; more need a Key.
	Partitions int

	// what to do with events that it cannot apply; zero fields: as the projector's Config.OnFailure
	OnFailure   Policy
	OnFailureOf map[string]Policy     // the same by event type; zero fields: as OnFailure
	Classify    func(err error) Class // overrides [Classify] where it knows better, else ""; nil: never

	keys func(e event.Event) ([]string, error) // of a document across campaigns with Keys
}

// Scope is which events a projection sees, and in which order.
type Scope string

// The scopes.
const (
	// ScopeCampaign: the events of each campaign in the order of seq; campaigns are applied side by
	// side. The default. campaign_id is in the keys of the tables.
	ScopeCampaign Scope = "campaign"
	// ScopeJournal: the events of all campaigns in the order of position, below the writer floor, for
	// read models across campaigns. An event that fails holds back its key ([Spec].Key).
	ScopeJournal Scope = "journal"
)

// AllKeys is the key of the document of a [Document] that has no Key. For operators it is the key of events
// across campaigns that have none, and of those whose key cannot be found: it holds back the whole partition.
const AllKeys = "-"

// Projection turns events into rows of its own tables.
//
// Most users take one of the kinds, [Document], [Handlers] and [Process], or SQL files (package sqlfile), and
// never implement it. An implementation may be called from several goroutines at once, with different
// campaigns. It must keep no state between calls; read earlier results from its tables.
type Projection interface {
	// Spec describes the projection. It must not change while a worker runs.
	Spec() Spec

	// Apply writes the effects of group's events through group. Events of a campaign come in the order
	// of their seq; a group may hold several campaigns. An error, or a failed queued statement, fails
	// the group. The projector then finds the culprit and defers only its campaign for this
	// projection.
	Apply(ctx context.Context, group *Group) error
}

// Loader is implemented by projections that read before they apply. The reads of all projections share one
// round trip.
type Loader interface {
	// Load queues reads with [Group.Queue]. Apply follows, with a group of the same events.
	Load(ctx context.Context, group *Group) error
}

// Across reports whether the projection sees the events of all campaigns, in the order of position.
func (s *Spec) Across() bool { return s.Scope == ScopeJournal }

// Resetter is implemented by projections that delete their rows in their own way when a campaign is
// replayed from scratch. For others, the campaign's rows are deleted by the column campaign_id from
// each table that the projection created, last created first.
type Resetter interface {
	// Reset deletes, through group, all rows of the campaigns. Their events follow from the first one
	// on, in the same transaction. group has no events.
	Reset(ctx context.Context, group *Group, campaignIDs []string) error
}

// Checker is implemented by projections that can find mistakes before the first event.
type Checker interface {
	// Check looks for mistakes. tx is rolled back.
	Check(ctx context.Context, tx pgx.Tx) error
}
