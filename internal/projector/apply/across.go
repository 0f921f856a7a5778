package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Stride is the next events of one partition of a projection across campaigns, in order of position.
type Stride struct {
	Projection *registry.Projection
	Events     []Keyed
	Careful    bool     // an event is likely to fail
	Reset      []string // keys whose rows are deleted first
	Reacting   *groupstate.Reacting

	// Fence queues what moves the place, behind the fence. held has the keys that failed, with the
	// position of the event. Finish queues what follows for keys that were behind; nil: nothing.
	Fence, Finish func(batch *pgx.Batch, held map[string]int64)
}

// OfOneEvent reports whether the stride is one event, for one or several of its keys.
func (s *Stride) OfOneEvent() bool {
	return len(s.Events) > 0 && s.Events[0].Event.Position == s.Events[len(s.Events)-1].Event.Position
}

// some returns some of the stride's events.
func (s *Stride) some(of []Keyed) kind.Events {
	events := kind.Events{All: slice.Of(of, func(e Keyed) event.Event { return *e.Event })}
	if s.Projection.Keys != nil {
		events.Keys = slice.Of(of, func(e Keyed) string { return e.Key })
	}
	return events
}

// ErrAside is returned by [Applier.Stride] for a projection that is paused, swapped or removed.
var ErrAside = errors.New("the projection does not move")

// Stride applies a stride in one transaction, and returns the keys that failed, with the position of
// the event. The later events of such a key are left out, and all later events if it is
// [kind.AllKeys]. Errors are the infrastructure's, or those of code that cost the transaction.
func (a *Applier) Stride(ctx context.Context, s *Stride) (held map[string]int64, err error) {
	careful := s.Careful || len(s.Reset) > 0 || a.uncommitted.Load() > 0 ||
		slices.ContainsFunc(s.Events, func(e Keyed) bool { return e.Fault != nil })
	if !careful {
		held, err = a.stride(ctx, s, false)
		if err == nil || errors.Is(err, ErrAside) || errors.Is(err, ledger.ErrLost) ||
			!a.isolable(ctx, err) && !failure.OwnLockTimeout(err) {
			return held, err
		}
		a.Cfg.Logger.WarnContext(ctx, "group failed, isolating the cause", "projection", s.Projection.Name,
			"events", len(s.Events), "error", err)
	}
	s.Careful = true
	return a.stride(ctx, s, true)
}

func (a *Applier) stride(ctx context.Context, s *Stride, careful bool) (held map[string]int64, err error) {
	loops.Of(ctx).Within(a.Promises.Step)
	conn, err := a.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := a.On(conn, nil, nil)
	defer t.Abort(ctx)
	t.Checks, t.reacting = careful, s.Reacting
	k, moves := s.Projection, false
	var tables []string
	t.Queue(QueryBegin)
	t.QueueSettings()
	t.Queue(registry.QueryRegistryGroup, a.Cfg.ConsumerGroup)
	t.Queue(registry.QueryRegistry, "", []string{k.Name}).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registry.Registered])
		if moves = len(all) == 1 && all[0].Moves() && all[0].Version == k.Described.Version; moves {
			tables = all[0].TableNames
		}
		return err
	})
	t.Use(k)
	var g *projection.Group
	inParts := t.Streams && kind.Eventwise(k.Projection) != nil && !k.Intricate.Load() && !t.looksAhead()
	if !careful && !inParts {
		events := s.some(s.Events)
		g = t.Group(k, events)
		held = map[string]int64{}
		kind.Isolate(g, func(i int, cause error) bool {
			culprit := &s.Events[i]
			t.failKey(k, culprit, cause)
			if k.Skips(culprit.Event.Type, cause) {
				return true
			}
			held[culprit.Key] = culprit.Event.Position
			return false
		})
		t.LimitStatements(k.Timeout(events.All))
		if err := a.Load(ctx, k, g); err != nil {
			return nil, t.Blame(err)
		}
	}
	if err := t.Flush(ctx); err != nil {
		return nil, t.Blame(err)
	}
	if !moves {
		return nil, ErrAside
	}
	a.Cfg.OnStep(kind.StepRead)
	switch {
	case careful:
		var stuck map[string]int64
		if stuck, err = t.resetKeys(ctx, s, tables); err == nil {
			held, err = t.strideCarefully(ctx, s)
		}
		if err == nil {
			maps.Copy(held, stuck)
		}
	case inParts:
		if held, err = t.strideInParts(ctx, s); errors.Is(err, pipeline.ErrIntricate) {
			t.Checks = true
			held, err = t.strideCarefully(ctx, s)
		}
	default:
		err = a.Apply(ctx, k, g)
	}
	if err != nil {
		return nil, t.Blame(err)
	}
	a.Cfg.OnStep(kind.StepApplied)
	return held, t.finishStride(ctx, s, held)
}

func (t *Transaction) finishStride(ctx context.Context, s *Stride, held map[string]int64) error {
	a := t.Applier
	t.useSchema(a.SearchPath)
	t.LimitStatements(a.Longest)
	if len(t.failures) > 0 {
		a.Cfg.OnStep(kind.StepDeferring)
	}
	s.Fence(t.Batch, held) // it goes first: acts of operators lock the place before failed keys
	t.Sync()
	t.writeFailures()
	if s.Finish != nil {
		s.Finish(t.Batch, held)
	}
	t.Sync()
	t.end()
	if err := ledger.Error(t.Flush(ctx)); err != nil {
		t.notCommitted(ctx, err)
		return t.Blame(err)
	}
	a.Cfg.OnStep(kind.StepCommitted)
	a.uncommitted.Add(-1) // as in noteFailures
	t.report(ctx)
	a.succeeded(ctx, len(s.Events))
	a.Metrics.Projections.Through.WithLabelValues(s.Projection.Name).Add(float64(t.through(s, held)))
	return nil
}

// through returns how many events of a stride have not failed, and wait for none that has.
func (t *Transaction) through(s *Stride, held map[string]int64) (n int) {
	if len(t.failures) == 0 {
		return len(s.Events)
	}
	failed := map[keyAt]bool{} // or skipped
	for _, f := range t.failures {
		failed[keyAt{f.CampaignID, f.Seq}] = true
	}
	waits := func(key string, position int64) bool {
		from, is := held[key]
		return is && position >= from
	}
	for _, e := range s.Events {
		at := e.Event.Position
		if !failed[keyAt{e.Key, at}] && !waits(e.Key, at) && !waits(projection.AllKeys, at) {
			n++
		}
	}
	return n
}

// strideCarefully applies the events inside savepoints, and finds each that fails.
func (t *Transaction) strideCarefully(ctx context.Context, s *Stride) (held map[string]int64, err error) {
	k := s.Projection
	held = map[string]int64{}
	for rest := s.Events; len(rest) > 0; {
		until := slices.IndexFunc(rest, func(e Keyed) bool { return e.Fault != nil })
		if until < 0 {
			until = len(rest)
		}
		n, cause, err := t.find(ctx, k, s.some(rest[:until]))
		if err != nil {
			return nil, err
		}
		if cause == nil && until < len(rest) {
			cause = rest[until].Fault
		}
		if cause == nil {
			break
		}
		culprit := rest[n]
		rest = rest[n+1:]
		t.failKey(k, &culprit, cause)
		if k.Skips(culprit.Event.Type, cause) {
			continue
		}
		held[culprit.Key] = culprit.Event.Position
		if culprit.Key == projection.AllKeys {
			break
		}
		rest = slices.DeleteFunc(slices.Clone(rest), func(e Keyed) bool { return e.Key == culprit.Key })
	}
	return held, nil
}

// resetKeys deletes the rows of keys that start over. It takes those that fail out of the stride and
// returns them.
func (t *Transaction) resetKeys(ctx context.Context, s *Stride, tables []string) (stuck map[string]int64, err error) {
	if len(s.Reset) == 0 {
		return nil, nil
	}
	k := s.Projection
	reset := func(keys ...string) error {
		return t.savepoint(ctx, k, func() error { return t.deleteKeys(ctx, k, keys, tables) })
	}
	cause := reset(s.Reset...)
	if cause == nil {
		return nil, nil
	}
	stuck = map[string]int64{}
	for _, key := range s.Reset {
		if len(s.Reset) > 1 && !t.broken(ctx, cause) {
			cause = reset(key)
		}
		if cause == nil {
			continue
		}
		first := slices.IndexFunc(s.Events, func(e Keyed) bool { return e.Key == key || key == projection.AllKeys })
		if t.broken(ctx, cause) || first < 0 && key == projection.AllKeys {
			return nil, t.Blame(cause)
		}
		if stuck[key] = 0; first < 0 {
			t.Applier.Cfg.Logger.WarnContext(ctx, "rows of a key not deleted, trying again at its first event",
				"projection", k.Name, "error", cause)
			continue
		}
		e := s.Events[first]
		e.Key, stuck[key] = key, e.Event.Position
		t.failKey(k, &e, cause).neverSkip()
		s.Events = slices.DeleteFunc(slices.Clone(s.Events), func(e Keyed) bool {
			return e.Key == key || key == projection.AllKeys
		})
	}
	return stuck, nil
}

func (t *Transaction) deleteKeys(ctx context.Context, k *registry.Projection, keys, tables []string) error {
	g := t.Group(k, kind.Events{})
	return t.Applier.Supervise(ctx, k, g, func(ctx context.Context) error {
		own, ok := k.Projection.(projection.Resetter)
		all := slices.Contains(keys, projection.AllKeys)
		for _, table := range slices.Backward(tables) {
			name := pgx.Identifier{k.Schema, table}.Sanitize()
			switch {
			case all:
				g.Queue(`DELETE FROM ` + name)
			case !ok:
				g.Queue(fmt.Sprintf(queryResetKeys, name, pgx.Identifier{k.Described.KeyColumn}.Sanitize()), keys)
			}
		}
		if ok {
			return own.Reset(ctx, g, keys)
		}
		return nil
	})
}

// failKey records that the projection could not apply an event: its key is held back from there on.
func (t *Transaction) failKey(k *registry.Projection, e *Keyed, cause error) *incident {
	f := t.fail(k, e.Event, cause)
	f.CampaignID, f.Seq = e.Key, e.Event.Position
	return f
}
