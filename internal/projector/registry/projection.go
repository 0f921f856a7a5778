package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Projection is one of this worker's projections with one of its sets of tables.
type Projection struct {
	projection.Projection
	Described projection.Spec
	// Keys returns the keys of an event across campaigns, which may have several; nil: it has one
	Keys   func(e event.Event) ([]string, error)
	Name   string // under which the set is registered
	Schema string // of its tables
	Path   string // search_path of its statements
	// appended to its statements, so two sets are prepared separately; "" for the live set
	Comment    string
	types      map[string]bool      // with their aliases; nil: all
	Call       atomic.Pointer[call] // lets the database apply a group; nil: the worker applies event by event
	uncallable atomic.Bool          // it cannot have a call

	Intricate  atomic.Bool  // its statements cannot be cut into parts
	Savepoints atomic.Int64 // groups still to be cut into small parts because of it
	Slow       atomic.Int64 // groups still to be left whole, because it took long to fail

	onFailure   projection.Policy            // complete
	onFailureOf map[string]projection.Policy // complete, by event type, with their aliases
}

// Identity must match between a row of the registry and the code.
type Identity struct {
	Name    string
	Version int
}

// Index returns the projections as given, with their live tables, and all sets of tables that they may have.
func Index(
	projections []projection.Projection, types *catalogue.Catalogue, onFailure projection.Policy, schema string,
) (list, sets []*Projection, err error) {
	var errs []error
	given := map[Identity]bool{}
	for _, p := range projections {
		k := &Projection{Projection: kind.Prepared(p), Described: p.Spec()}
		if err := kind.Check(k.Projection, k.Described); err != nil {
			errs = append(errs, err)
			continue
		}
		k.Keys, _ = groupstate.Keys(k.Projection, &k.Described)
		if id := (Identity{k.Described.Name, k.Described.Version}); given[id] {
			errs = append(errs, fmt.Errorf("projection %s: there are two of this name and version", k.Described.Name))
			continue
		} else {
			given[id] = true
		}
		if k.Described.Types != nil {
			k.types = make(map[string]bool, len(k.Described.Types))
			for _, t := range k.Described.Types {
				for _, name := range types.Names(t) {
					k.types[name] = true
				}
			}
		}
		if err := k.settle(types, onFailure); err != nil {
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

func (k *Projection) settle(types *catalogue.Catalogue, standard projection.Policy) error {
	var errs []error
	wrong := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("projection %s: %s: %w", k.Described.Name, what, err))
		}
	}
	k.onFailure = k.Described.OnFailure.Or(standard)
	wrong("OnFailure", k.onFailure.Validate())
	k.onFailureOf = map[string]projection.Policy{}
	for t, policy := range k.Described.OnFailureOf {
		policy = policy.Or(k.onFailure)
		wrong("OnFailureOf "+t, policy.Validate())
		names := types.Names(t)
		if k.types != nil && !k.types[names[0]] {
			wrong("OnFailureOf "+t, errors.New("it does not want events of this type"))
		}
		for _, name := range names {
			k.onFailureOf[name] = policy
		}
	}
	return errors.Join(errs...)
}

// Policy returns the policy for failures on events of a type.
func (k *Projection) Policy(eventType string) projection.Policy {
	if policy, ok := k.onFailureOf[eventType]; ok {
		return policy
	}
	return k.onFailure
}

// Skips reports whether the projection skips events of this type that fail for this cause.
func (k *Projection) Skips(eventType string, cause error) bool {
	return k.Policy(eventType).Action == projection.ActionSkip && !failure.Waits(k.Classify(failure.Cause(cause))) &&
		!failure.Later(cause)
}

// MaySkip reports whether any policy of the projection skips failed events.
func (k *Projection) MaySkip() bool {
	skips := func(p projection.Policy) bool { return p.Action == projection.ActionSkip }
	return skips(k.onFailure) || slices.ContainsFunc(slices.Collect(maps.Values(k.onFailureOf)), skips)
}

// Wants reports whether the event is for the projection, or may be: it is archived and cannot be read.
func (k *Projection) Wants(e *event.Event) bool {
	return feed.Archived(e) || e.Intent == event.ProjectionAndReplay && (k.types == nil || k.types[e.Type])
}

// takes is [Projection.Wants] for the database.
func (k *Projection) takes() ledger.Takes {
	takes := ledger.Takes{Intents: []event.Intent{event.ProjectionAndReplay}}
	if k.types != nil {
		takes.Types = slices.AppendSeq([]string{}, maps.Keys(k.types)) // nil would mean all
		slices.Sort(takes.Types)
	}
	return takes
}

// Origin returns the origin of statements about an event.
func (k *Projection) Origin(e event.Event) pipeline.Origin {
	return pipeline.Origin{Projection: k.Name, CampaignID: e.CampaignID, Seq: e.Seq, EventType: e.Type}
}

// Places returns the readers of a projection across campaigns, one a partition.
func (k *Projection) Places() []publications.Key {
	places := make([]publications.Key, max(1, k.Described.Partitions))
	for i := range places {
		places[i] = publications.Key{Topic: k.Name, Publisher: "#" + strconv.Itoa(i)}
	}
	return places
}

// find returns this worker's first set of tables that is such a one, or nil.
func (b *Base) find(is func(*Projection) bool) *Projection {
	if i := slices.IndexFunc(b.Sets, is); i >= 0 {
		return b.Sets[i]
	}
	return nil
}

// Names returns the names of this worker's projections.
func (b *Base) Names() (names []string) {
	for _, k := range b.Projections {
		if !slices.Contains(names, k.Described.Name) {
			names = append(names, k.Described.Name)
		}
	}
	return names
}

// Newest returns this worker's highest version of a projection.
func (b *Base) Newest(name string) (newest *Projection) {
	for _, k := range b.Projections {
		if k.Described.Name == name && (newest == nil || k.Described.Version > newest.Described.Version) {
			newest = k
		}
	}
	return newest
}

// Set returns a projection's set of tables in a version, or nil if this worker lacks it.
func (b *Base) Set(name string, s TableSet, version int) *Projection {
	return b.find(func(k *Projection) bool { return k.Name == s.Of(name) && k.Described.Version == version })
}

// Behind returns the names of the sets whose failed campaigns this worker retries.
func (b *Base) Behind() []string {
	if v := b.Seen.Load(); v != nil {
		return slices.Concat(v.Names, v.Rebuilding)
	}
	return nil
}

// Infrastructure reports whether the infrastructure made a group fail. A projection that failed on a
// working connection under a live context did not, whatever the class of its error.
func (b *Base) Infrastructure(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	var broken *failure.BrokenError
	if _, named := errors.AsType[*projection.ApplyError](err); named && !errors.As(err, &broken) {
		return false
	}
	return failure.IsInfrastructure(err)
}

// Classify returns the class of an error. It asks the projection's own classifier first.
func (k *Projection) Classify(err error) (class projection.Class) {
	if _, putOff := errors.AsType[*failure.PutOffError](err); putOff || k.Described.Classify == nil {
		return projection.Classify(err)
	}
	defer func() {
		if recover() != nil { // a classifier that fails must not fail the worker
			class = projection.Classify(err)
		}
	}()
	switch class := k.Described.Classify(err); class {
	case projection.ClassInfrastructure, projection.ClassTransient, projection.ClassPermanent, projection.ClassLock:
		return class
	}
	return projection.Classify(err)
}

// Timeout returns the projection's timeout for the events: the longest of any of them.
func (k *Projection) Timeout(events []event.Event) time.Duration {
	if len(k.onFailureOf) == 0 || len(events) == 0 {
		return k.onFailure.Timeout
	}
	longest := time.Duration(0)
	for i := range events {
		longest = max(longest, k.Policy(events[i].Type).Timeout)
	}
	return longest
}

// LongestTimeout returns the longest timeout of all projections and event types. The server ends
// transactions that idle longer, and cancels statements that run longer.
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

// Foreign reports whether r is the live set of a projection that this worker has in no version.
// Another program, or another release, serves the same consumer group.
func (b *Base) Foreign(r *Registered) bool {
	name, set := Split(r.Name)
	return set == LiveTables && b.Newest(name) == nil
}
