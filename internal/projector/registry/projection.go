package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Projection is a projection that this worker has, with one of the sets of tables that it may have.
type Projection struct {
	kind.Projection
	Described kind.Spec
	Name      string // under which the set is registered
	Schema    string // of its tables
	Path      string // search_path of its statements
	// ends its statements, so that those of two sets are prepared apart; "" for the live one
	Comment    string
	types      map[string]bool      // with their aliases; nil: all
	Call       atomic.Pointer[call] // lets the database apply a group; nil: events are applied from here
	uncallable atomic.Bool          // it has no such call, and is not to be given one

	Intricate  atomic.Bool  // its statements cannot be cut into parts
	Savepoints atomic.Int64 // groups that are still to be cut into small parts for its sake

	onFailure   kind.Policy            // complete
	onFailureOf map[string]kind.Policy // complete, by event type, with their aliases
}

// Identity is what a row of the registry must say for the code to be its own.
type Identity struct {
	Name    string
	Version int
}

// Index answers the projections as they were given, with the tables that are read, and all sets of
// tables that they may have.
func Index(
	projections []kind.Projection, catalogue *journal.Catalogue, onFailure kind.Policy, schema string,
) (list, sets []*Projection, err error) {
	var errs []error
	given := map[Identity]bool{}
	for _, p := range projections {
		k := &Projection{Projection: p, Described: p.Spec()}
		if err := kind.CheckSpec(k.Described); err != nil {
			errs = append(errs, err)
			continue
		}
		if id := (Identity{k.Described.Name, k.Described.Version}); given[id] {
			errs = append(errs, fmt.Errorf("projection %s: there are two of this name and version", k.Described.Name))
			continue
		} else {
			given[id] = true
		}
		if k.Described.Types != nil {
			k.types = make(map[string]bool, len(k.Described.Types))
			for _, t := range k.Described.Types {
				for _, name := range catalogue.Names(t) {
					k.types[name] = true
				}
			}
		}
		if err := k.settle(catalogue, onFailure); err != nil {
			errs = append(errs, err)
		}
		list = append(list, k.among(LiveTables, schema))
	}
	sets = slices.Clone(list)
	for _, which := range []TableSet{NextTables, PreviousTables} {
		for _, k := range list {
			sets = append(sets, k.among(which, schema))
		}
	}
	return list, sets, errors.Join(errs...)
}

// settle works out the projection's policies.
func (k *Projection) settle(catalogue *journal.Catalogue, standard kind.Policy) error {
	var errs []error
	wrong := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("projection %s: %s: %w", k.Described.Name, what, err))
		}
	}
	k.onFailure = kind.CompletePolicy(k.Described.OnFailure, standard)
	wrong("OnFailure", kind.CheckPolicy(k.onFailure))
	k.onFailureOf = map[string]kind.Policy{}
	for t, policy := range k.Described.OnFailureOf {
		policy = kind.CompletePolicy(policy, k.onFailure)
		wrong("OnFailureOf "+t, kind.CheckPolicy(policy))
		names := catalogue.Names(t)
		if k.types != nil && !k.types[names[0]] {
			wrong("OnFailureOf "+t, errors.New("it does not want events of this type"))
		}
		for _, name := range names {
			k.onFailureOf[name] = policy
		}
	}
	return errors.Join(errs...)
}

// Policy is that for failures on events of a type.
func (k *Projection) Policy(eventType string) kind.Policy {
	if policy, ok := k.onFailureOf[eventType]; ok {
		return policy
	}
	return k.onFailure
}

// Skips says whether the projection goes on without an event of a type that it cannot apply for that reason.
func (k *Projection) Skips(eventType string, cause error) bool {
	var apply *failure.ApplyError
	if errors.As(cause, &apply) {
		cause = apply.Err
	}
	return k.Policy(eventType).Action == kind.ActionSkip && k.Classify(cause) != failure.ClassLock
}

// MaySkip says whether a policy of the projection is to skip events that fail.
func (k *Projection) MaySkip() bool {
	skips := func(p kind.Policy) bool { return p.Action == kind.ActionSkip }
	return skips(k.onFailure) || slices.ContainsFunc(slices.Collect(maps.Values(k.onFailureOf)), skips)
}

// Wants says whether the event is for the projection.
func (k *Projection) Wants(e *journal.Event) bool {
	return e.Intent == journal.ProjectionAndReplay && (k.types == nil || k.types[e.Type])
}

// Origin is what statements about an event are for.
func (k *Projection) Origin(e journal.Event) pipeline.Origin {
	return pipeline.Origin{Projection: k.Name, CampaignID: e.CampaignID, Seq: e.Seq, EventType: e.Type}
}

// named answers a projection of this worker's by the name of one of its sets of tables, in any
// version; nil if it has none.
func (b *Base) named(name string) *Projection {
	i := slices.IndexFunc(b.Sets, func(k *Projection) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return b.Sets[i]
}

// Names answers the names of the projections that this worker has.
func (b *Base) Names() (names []string) {
	for _, k := range b.Projections {
		if !slices.Contains(names, k.Described.Name) {
			names = append(names, k.Described.Name)
		}
	}
	return names
}

// Newest answers the projection of that name in its highest version that this worker has.
func (b *Base) Newest(name string) (newest *Projection) {
	for _, k := range b.Projections {
		if k.Described.Name == name && (newest == nil || k.Described.Version > newest.Described.Version) {
			newest = k
		}
	}
	return newest
}

// Set answers one of the sets of tables of a projection in a version that this worker has; nil if it does not.
func (b *Base) Set(name string, s TableSet, version int) *Projection {
	i := slices.IndexFunc(b.Sets, func(k *Projection) bool {
		return k.Name == s.Of(name) && k.Described.Version == version
	})
	if i < 0 {
		return nil
	}
	return b.Sets[i]
}

// Behind answers the names of those whose pairs this worker brings forward.
func (b *Base) Behind() []string {
	if v := b.Seen.Load(); v != nil {
		return slices.Concat(v.Names, v.Rebuilding)
	}
	return nil
}

// Infrastructure says whether a group's failure is the infrastructure's. A projection's own, on a
// connection that holds and under a context that has not ended, is what its classifier calls it.
func (b *Base) Infrastructure(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	var apply *failure.ApplyError
	var broken *failure.BrokenError
	if errors.As(err, &apply) && !errors.As(err, &broken) {
		if k := b.named(apply.Projection); k != nil {
			return k.Classify(apply.Err) == failure.ClassInfrastructure
		}
	}
	return failure.IsInfrastructure(err)
}

// Classify asks the projection's own classifier first.
func (k *Projection) Classify(err error) (class failure.Class) {
	if k.Described.Classify == nil {
		return failure.Classify(err)
	}
	defer func() {
		if recover() != nil { // a classifier that fails must not fail the worker
			class = failure.Classify(err)
		}
	}()
	switch class := k.Described.Classify(err); class {
	case failure.ClassInfrastructure, failure.ClassTransient, failure.ClassPermanent, failure.ClassLock:
		return class
	}
	return failure.Classify(err)
}

// Timeout is how long the projection may take for the events: the longest that any of them is allowed.
func (k *Projection) Timeout(events []journal.Event) time.Duration {
	longest := k.onFailure.Timeout
	if len(k.onFailureOf) == 0 || len(events) == 0 {
		return longest
	}
	longest = 0
	for i := range events {
		longest = max(longest, k.Policy(events[i].Type).Timeout)
	}
	return longest
}

// LongestTimeout is that of all projections and event types. The server ends a transaction that is
// idle for longer, and cancels statements that run longer.
func LongestTimeout(projections []*Projection) time.Duration {
	longest := time.Duration(0)
	for _, k := range projections {
		longest = max(longest, k.onFailure.Timeout)
		for _, policy := range k.onFailureOf {
			longest = max(longest, policy.Timeout)
		}
	}
	return longest
}

// Foreign says whether the live tables of a projection are registered whose code this worker has in no
// version. Another program serves the same consumer group, or another release of this one.
func (b *Base) Foreign(r *Registered) bool {
	name, set := Split(r.Name)
	return set == LiveTables && b.Newest(name) == nil
}
