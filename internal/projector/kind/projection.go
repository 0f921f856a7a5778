package kind

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Spec is projector.Spec.
type Spec struct {
	Name    string   // unique in the database; lower-case letters, digits and underscores, up to 63
	Version int      // from 1; raise it when the tables or the meaning change
	Types   []string // event types it wants, by their current names; nil: all
	Tables  string   // DDL that creates its tables and indexes, named without a schema

	Scope Scope // which events it sees, and in which order; default [ScopeCampaign]

	// Key returns the key of an event for a projection across campaigns; "": it does not want the
	// event. An event that fails holds back the later events of its key. nil: all events have one key,
	// so a failure holds back all of them. Key must depend only on the event.
	Key func(e event.Event) (string, error)

	// KeyColumn is the column that has the key, in each of the tables. With it one key can be replayed,
	// and its rows be found. Optional.
	KeyColumn string

	// Partitions is how many workers can apply a projection across campaigns at once: each partition
	// has the keys of one hash, and a place of its own. Default 1; more need a Key.
	Partitions int

	// what to do with events that it cannot apply; zero fields: as [Config].OnFailure
	OnFailure   Policy
	OnFailureOf map[string]Policy  // the same by event type; zero fields: as OnFailure
	Classify    failure.Classifier // overrides [Classify] where it knows better; nil: never
}

// Scope is projector.Scope.
type Scope string

// The scopes. Package projector documents them.
const (
	ScopeCampaign Scope = "campaign"
	ScopeJournal  Scope = "journal"
)

// AllKeys is the key of events that have none, and of those whose key cannot be found. It holds back
// the whole partition.
const AllKeys = "-"

// MostPartitions is the largest [Spec].Partitions.
const MostPartitions = 64

// Projection is projector.Projection.
type Projection interface {
	// Spec describes the projection. It must not change while a worker runs.
	Spec() Spec

	// Apply writes the effects of group's events through group. Events of a campaign come in the order
	// of their seq; a group may hold several campaigns. An error, or a failed queued statement, fails
	// the group. The projector then finds the culprit and defers only its campaign for this
	// projection.
	Apply(ctx context.Context, group *Group) error
}

// Loader is projector.Loader.
type Loader interface {
	// Load queues reads with [Group.Queue]. Apply follows, with a group of the same events.
	Load(ctx context.Context, group *Group) error
}

// CheckSpec returns the mistakes of a spec.
func CheckSpec(s Spec) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`).MatchString(s.Name) {
		return fmt.Errorf("projection name %q: use 1 to 63 lower-case letters, digits and underscores, a letter first",
			s.Name)
	}
	if s.Version < 1 {
		return fmt.Errorf("projection %s: version is %d, versions start at 1", s.Name, s.Version)
	}
	switch s.Scope {
	case "", ScopeCampaign:
		if s.Partitions != 0 || s.Key != nil || s.KeyColumn != "" {
			return fmt.Errorf("projection %s has a key or partitions, which only projections across campaigns have: "+
				"give it the scope %s, or take them out", s.Name, ScopeJournal)
		}
	case ScopeJournal:
		switch {
		case s.Partitions < 0 || s.Partitions > MostPartitions:
			return fmt.Errorf("projection %s has %d partitions: use 1 to %d", s.Name, s.Partitions, MostPartitions)
		case s.Partitions > 1 && s.Key == nil:
			return fmt.Errorf("projection %s has %d partitions and no key to share its events out: give it a key, or one "+
				"partition", s.Name, s.Partitions)
		}
	default:
		return fmt.Errorf("projection %s has the scope %q: use %s or %s", s.Name, s.Scope, ScopeCampaign, ScopeJournal)
	}
	return nil
}

// Across reports whether the projection sees the events of all campaigns, in the order of position.
func (s *Spec) Across() bool { return s.Scope == ScopeJournal }

// Resetter is projector.Resetter.
type Resetter interface {
	// Reset deletes, through group, all rows of the campaigns. Their events follow from the first one
	// on, in the same transaction. group has no events.
	Reset(ctx context.Context, group *Group, campaignIDs []string) error
}

// Checker is projector.Checker.
type Checker interface {
	// Check looks for mistakes. tx is rolled back.
	Check(ctx context.Context, tx pgx.Tx) error
}

// Statements returns the hash of the statements of a projection in an SQL file; "": it is code in Go.
func Statements(p Projection) string {
	if file, ok := p.(interface{ StatementsHash() string }); ok {
		return file.StatementsHash()
	}
	return ""
}

// EachEvent applies one event of a projection that takes events one by one, each independent of the others.
type EachEvent func(ctx context.Context, g *Group, e event.Event) error

// Eventwise returns how the projection takes events one by one, or nil if it does not.
func Eventwise(p Projection) EachEvent {
	switch p := p.(type) {
	case interface {
		ApplyEvent(ctx context.Context, g *Group, e event.Event) error
	}:
		return p.ApplyEvent
	case *Handlers:
		return p.applyEvent
	}
	return nil
}

// ErrIntricate means that a projection's statements cannot be cut into parts: it reads results,
// queues for several events at once, uses too many statements, or learns their outcome only at the
// end.
var ErrIntricate = errors.New("the projection's statements cannot be cut into parts")

// Mode is projector.Mode.
type Mode string

// The modes. Package projector documents them.
const (
	ModeOutboxApplyOnly Mode = "outbox_apply_only"
	ModeInlineApplyOnly Mode = "inline_apply_only"
	ModeShadowOnly      Mode = "shadow_only"
	ModeEnqueueOnly     Mode = "enqueue_only"
)

// Modes lists the modes.
func Modes() []Mode {
	return []Mode{ModeOutboxApplyOnly, ModeInlineApplyOnly, ModeShadowOnly, ModeEnqueueOnly}
}

// Step is a step of the worker's loop.
type Step string

// The steps, in order.
const (
	StepClaimed Step = "claimed" // leases are held
	StepRead    Step = "read"    // the transaction is open, events have been read
	StepApplied Step = "applied" // projections have queued their effects
	// instead of applied: the culprits are known, and the outcome is about to be committed
	StepDeferring Step = "deferring"
	StepCommitted Step = "committed" // checkpoint and effects are committed
)
