package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/pkg/journal"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/failure"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/pipeline"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/kind"
)

// known is a projection that this worker has, with one of the sets of tables that it may have.
type known struct {
	Projection
	spec       Spec
	name       string               // under which the set is registered
	schema     string               // of its tables
	path       string               // search_path of its statements
	comment    string               // ends its statements, so that those of two sets are prepared apart; "" for the live one
	types      map[string]bool      // with their aliases; nil: all
	call       atomic.Pointer[call] // lets the database apply a group; nil: events are applied from here
	uncallable atomic.Bool          // it has no such call, and is not to be given one

	intricate  atomic.Bool  // its statements cannot be cut into parts
	savepoints atomic.Int64 // groups that are still to be cut into small parts for its sake
	violates   atomic.Bool  // it has violated a constraint that is checked by COMMIT

	onFailure   Policy            // complete
	onFailureOf map[string]Policy // complete, by event type, with their aliases
	chances     SecondChances
}

// identity is what a row of the registry must say for the code to be its own.
type identity struct {
	name    string
	version int
}

// index answers the projections as they were given, with the tables that are read, and all sets of tables that they may have.
func index(projections []Projection, catalogue *journal.Catalogue, onFailure Policy, schema string) (list, sets []*known, err error) {
	var errs []error
	given := map[identity]bool{}
	for _, p := range projections {
		k := &known{Projection: p, spec: p.Spec()}
		if err := kind.CheckSpec(k.spec); err != nil {
			errs = append(errs, err)
			continue
		}
		if id := (identity{k.spec.Name, k.spec.Version}); given[id] {
			errs = append(errs, fmt.Errorf("projection %s: there are two of this name and version", k.spec.Name))
			continue
		} else {
			given[id] = true
		}
		if k.spec.Types != nil {
			k.types = make(map[string]bool, len(k.spec.Types))
			for _, t := range k.spec.Types {
				for _, name := range catalogue.Names(t) {
					k.types[name] = true
				}
			}
		}
		if err := k.settle(catalogue, onFailure); err != nil {
			errs = append(errs, err)
		}
		list = append(list, k.among(liveTables, schema))
	}
	for _, which := range []tableSet{liveTables, nextTables, previousTables} {
		for _, k := range list {
			if which == liveTables {
				sets = append(sets, k)
			} else {
				sets = append(sets, k.among(which, schema))
			}
		}
	}
	return list, sets, errors.Join(errs...)
}

// settle works out the projection's policies.
func (k *known) settle(catalogue *journal.Catalogue, standard Policy) error {
	var errs []error
	wrong := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("projection %s: %s: %w", k.spec.Name, what, err))
		}
	}
	k.onFailure = kind.CompletePolicy(k.spec.OnFailure, standard)
	wrong("OnFailure", kind.CheckPolicy(k.onFailure))
	k.onFailureOf = map[string]Policy{}
	for t, policy := range k.spec.OnFailureOf {
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
	k.chances = kind.CompleteChances(k.spec.SecondChances)
	wrong("SecondChances", kind.CheckChances(k.chances))
	return errors.Join(errs...)
}

// policy is that for failures on events of a type.
func (k *known) policy(eventType string) Policy {
	if policy, ok := k.onFailureOf[eventType]; ok {
		return policy
	}
	return k.onFailure
}

// skips says whether the projection goes on without an event of a type that it cannot apply for that reason.
func (k *known) skips(eventType string, cause error) bool {
	var apply *ApplyError
	if errors.As(cause, &apply) {
		cause = apply.Err
	}
	return k.policy(eventType).Action == ActionSkip && k.classify(cause) != ClassLock
}

// maySkip says whether a policy of the projection is to skip events that fail.
func (k *known) maySkip() bool {
	if k.onFailure.Action == ActionSkip {
		return true
	}
	for _, policy := range k.onFailureOf {
		if policy.Action == ActionSkip {
			return true
		}
	}
	return false
}

// wants says whether the event is for the projection.
func (k *known) wants(e *journal.Event) bool {
	return e.Intent == journal.ProjectionAndReplay && (k.types == nil || k.types[e.Type])
}

func (k *known) origin(e journal.Event) pipeline.Origin {
	return pipeline.Origin{Projection: k.name, CampaignID: e.CampaignID, Seq: e.Seq, EventType: e.Type}
}

// named answers a projection of this worker's by the name of one of its sets of tables, in any version; nil if it has none.
func (b *base) named(name string) *known {
	i := slices.IndexFunc(b.sets, func(k *known) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return b.sets[i]
}

// names answers the names of the projections that this worker has.
func (b *base) names() (names []string) {
	for _, k := range b.projections {
		if !slices.Contains(names, k.spec.Name) {
			names = append(names, k.spec.Name)
		}
	}
	return names
}

// newest answers the projection of that name in its highest version that this worker has.
func (b *base) newest(name string) (newest *known) {
	for _, k := range b.projections {
		if k.spec.Name == name && (newest == nil || k.spec.Version > newest.spec.Version) {
			newest = k
		}
	}
	return newest
}

// set answers one of the sets of tables of a projection in a version that this worker has; nil if it does not.
func (b *base) set(name string, s tableSet, version int) *known {
	i := slices.IndexFunc(b.sets, func(k *known) bool { return k.name == s.of(name) && k.spec.Version == version })
	if i < 0 {
		return nil
	}
	return b.sets[i]
}

// behind answers the names of those whose pairs this worker brings forward.
func (b *base) behind() []string {
	if v := b.seen.Load(); v != nil {
		return slices.Concat(v.names, v.rebuilding)
	}
	return nil
}

// infrastructure says whether a group's failure is the infrastructure's. A projection's own, on a connection that holds and under a context that has not ended, is what its classifier
// calls it.
func (b *base) infrastructure(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	var apply *ApplyError
	var broken *failure.BrokenError
	if errors.As(err, &apply) && !errors.As(err, &broken) {
		if k := b.named(apply.Projection); k != nil {
			return k.classify(apply.Err) == ClassInfrastructure
		}
	}
	return IsInfrastructure(err)
}

// classify asks the projection's own classifier first.
func (k *known) classify(err error) (class Class) {
	if k.spec.Classify == nil {
		return Classify(err)
	}
	defer func() {
		if recover() != nil { // a classifier that fails must not fail the worker
			class = Classify(err)
		}
	}()
	switch class := k.spec.Classify(err); class {
	case ClassInfrastructure, ClassTransient, ClassPermanent, ClassLock:
		return class
	}
	return Classify(err)
}

// timeout is how long the projection may take for the events: the longest that any of them is allowed.
func (k *known) timeout(events []journal.Event) time.Duration {
	longest := k.onFailure.Timeout
	if len(k.onFailureOf) == 0 || len(events) == 0 {
		return longest
	}
	longest = 0
	for i := range events {
		longest = max(longest, k.policy(events[i].Type).Timeout)
	}
	return longest
}

// longestTimeout is that of all projections and event types. The server ends a transaction that is idle for longer, and cancels statements that run longer.
func longestTimeout(projections []*known) time.Duration {
	longest := time.Duration(0)
	for _, k := range projections {
		longest = max(longest, k.onFailure.Timeout)
		for _, policy := range k.onFailureOf {
			longest = max(longest, policy.Timeout)
		}
	}
	return longest
}

// longestWait is the longest time for which a pair of the projection ever waits.
func (k *known) longestWait() time.Duration {
	longest := kind.LongestWait(k.onFailure)
	for _, policy := range k.onFailureOf {
		longest = max(longest, kind.LongestWait(policy))
	}
	if k.chances.Count > 0 {
		longest = max(longest, 2*k.chances.Max) // jitter
	}
	return longest
}

// foreign says whether the live tables of a projection are registered whose code this worker has in no
// version. Another program serves the same consumer group, or another release of this one.
func (b *base) foreign(r *registered) bool {
	name, set := split(r.Name)
	return set == liveTables && b.newest(name) == nil
}

// registered is a row of tidemark.projections.
type registered struct {
	Name          string
	Version       int
	State         string
	ConsumerGroup string
	SchemaName    string
	TableNames    []string
	Paused        bool
	RegisteredAt  time.Time
	ResolvedAhead bool // events may be left out that live work comes to
}

// moves says whether the projection moves along with its group where a worker has it in this version.
func (r *registered) moves() bool {
	return r.State == stateActive && !r.Paused
}

func (r registered) same(other registered) bool {
	return r.Name == other.Name && r.Version == other.Version && r.State == other.State && r.ConsumerGroup == other.ConsumerGroup && r.SchemaName == other.SchemaName &&
		r.Paused == other.Paused && r.ResolvedAhead == other.ResolvedAhead && r.RegisteredAt.Equal(other.RegisteredAt) && slices.Equal(r.TableNames, other.TableNames)
}
