package across

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// tickEvery is the longest time between two looks at the other processes and the places.
const tickEvery = time.Second

// tickRest is the shortest. It looks again when a place has ended: an act on its projection, such as a
// replay of a key, has raised its generation, and live events wait.
const tickRest = 20 * time.Millisecond

// Runner holds this process's share of the partitions, and applies them.
type Runner struct {
	*registry.Base
	Applier *apply.Applier
	db      *ledger.Ledger
	source  *source

	instance string // of the database, as last seen

	ended   chan struct{} // a place has ended
	places  map[publications.Key]*holding
	loops   map[publications.Key]*loops.Loop
	running sync.WaitGroup
}

// holding is a place with its goroutine.
type holding struct {
	*place
	stop  context.CancelFunc
	ended atomic.Bool
	gone  bool  // the lease is not to be released
	err   error // that ended a drain
}

// NewRunner returns a runner that holds nothing.
func NewRunner(b *registry.Base, a *apply.Applier) *Runner {
	return &Runner{
		Base: b, Applier: a, source: newSource(b), places: map[publications.Key]*holding{},
		loops: map[publications.Key]*loops.Loop{}, ended: make(chan struct{}, 1),
		db: ledger.New(b.Cfg.Pool, b.Keeper.Owner, ledger.Projection, b.Cfg.LeaseTTL),
	}
}

// Idle reports whether the program has no projection across campaigns.
func (r *Runner) Idle() bool {
	return !slices.ContainsFunc(r.Projections, func(k *registry.Projection) bool { return k.Described.Across() })
}

// Wake ends the wait for events.
func (r *Runner) Wake() { r.source.wake() }

// Run applies events until ctx is cancelled. Then it finishes or rolls back groups under way, which
// patient bounds, and releases its places.
func (r *Runner) Run(ctx, patient context.Context) {
	every := min(tickEvery, r.Cfg.LeaseTTL/4)
	for failures := 0; ctx.Err() == nil; {
		wait := every
		bounded, cancel := r.Bounded(patient)
		err := r.tick(bounded, patient)
		cancel()
		if failures++; err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			wait = min(every, r.Backoff(failures))
			r.Cfg.Logger.WarnContext(ctx, "places across campaigns not looked after", "error", err, "wait", wait)
		}
		loops.Of(ctx).Within(r.Promises.Around)
		loops.Sleep(ctx, tickRest)
		select {
		case <-ctx.Done():
		case <-r.ended:
		case <-time.After(wait):
		}
	}
	r.stopAll(patient)
	loops.Of(ctx).Rest()
}

// Drain applies what there is, and returns the first error. Places that other processes hold are left
// out.
func (r *Runner) Drain(ctx context.Context) (err error) {
	if err = r.tick(ctx, ctx); err == nil {
		r.running.Wait()
	}
	for _, h := range r.places {
		err = cmp.Or(err, h.err)
	}
	r.stopAll(ctx)
	return err
}

// tick looks at the other processes, renews the leases of the places, gives back those that are
// others' now, and claims free ones.
func (r *Runner) tick(ctx, patient context.Context) error {
	known := r.known()
	var seen *ledger.Seen
	if err := r.db.Use(ctx, func(conn *pgxpool.Conn) (err error) {
		seen, err = r.db.Look(ctx, conn, ledger.Look{
			Host: r.Host, Knows: slices.Collect(maps.Keys(known)), Lives: 4 * tickEvery, Holding: len(r.places),
		})
		return err
	}); err != nil {
		return err
	}
	r.replaced(ctx, seen)
	r.source.forget(seen.Erased)
	assigned := ledger.Assign(seen.Relays, seen.Pairs)
	var free []publications.Key
	rows, parts := map[publications.Key]*ledger.Row{}, map[string]int{}
	for i := range seen.Pairs {
		rows[seen.Pairs[i].Key] = &seen.Pairs[i]
		parts[seen.Pairs[i].Topic]++
	}
	for key, h := range r.places {
		row := rows[key]
		if h.gone = row == nil || row.Owner != r.Keeper.Owner || row.Generation != h.generation; h.gone ||
			known[key] == nil || assigned[key] != r.Keeper.Owner {
			h.stop()
		}
		if h.gone && h.ended.Load() {
			delete(r.places, key)
		}
	}
	for key, row := range rows {
		// Keys are in other partitions if their number differs: the registration refuses that, but not at once.
		if r.places[key] == nil && known[key] != nil && !row.Leased && assigned[key] == r.Keeper.Owner &&
			known[key].parts == parts[key.Topic] {
			free = append(free, key)
		}
	}
	if err := r.renew(ctx, seen.Instance); err != nil || len(free) == 0 {
		return err
	}
	return r.db.Use(ctx, func(conn *pgxpool.Conn) error {
		claimed, err := r.db.Claim(ctx, conn, free)
		for _, c := range claimed {
			p := known[c.Key]
			p.generation, p.read, p.stands, p.instance = c.Generation, c.Position, c.Position, seen.Instance
			p.size, p.saved = r.Cfg.GroupEvents, time.Now()
			p.suspects(ctx, &c)
			r.start(patient, p)
		}
		return err
	})
}

// replaced drops what was read from another instance of the database, after a failover, a restore or a
// restart. Places that were claimed there end, and begin anew from their rows: the rows are as old as
// the journal beside them.
func (r *Runner) replaced(ctx context.Context, seen *ledger.Seen) {
	end := int64(math.MaxInt64)
	for i := range seen.Pairs {
		end = min(end, seen.Pairs[i].Last)
	}
	shorter := r.source.replaced(seen.Instance, end)
	for _, h := range r.places {
		if shorter || h.instance != seen.Instance {
			h.stop()
		}
	}
	if shorter || r.instance != "" && r.instance != seen.Instance {
		r.Cfg.Logger.WarnContext(ctx, "the database is another instance than before, after a failover, a restore or a "+
			"restart: places begin anew from their rows")
	}
	r.instance = seen.Instance
}

// known returns the partitions of the registered projections that this program has code for.
func (r *Runner) known() map[publications.Key]*place {
	known := map[publications.Key]*place{}
	view := r.Seen.Load()
	if view == nil {
		return known
	}
	for _, k := range view.Across {
		places := k.Places()
		_, set := registry.Split(k.Name)
		for i, key := range places {
			known[key] = &place{
				Runner: r, k: k, key: key, part: i, parts: len(places), building: set == registry.NextTables,
				due: due{probed: make(chan struct{}, 1)},
			}
		}
	}
	return known
}

// renew prolongs the leases of the places, and releases those whose goroutines have ended.
func (r *Runner) renew(ctx context.Context, instance string) error {
	var moves []ledger.Move
	for key, h := range r.places {
		ended := h.ended.Load()
		if ended {
			delete(r.places, key)
		}
		if !h.gone {
			moves = append(moves, ledger.Move{Key: key, Generation: h.generation, Release: ended})
		}
	}
	if len(moves) == 0 {
		return nil
	}
	_, err := r.db.Move(ctx, instance, moves)
	return err
}

func (r *Runner) start(patient context.Context, p *place) {
	loop := r.loops[p.key]
	if loop == nil {
		loop = r.Pulse.Loop("across " + p.key.String())
		r.loops[p.key] = loop
	}
	patient = loops.With(patient, loop)
	ctx, stop := context.WithCancel(patient)
	h := &holding{place: p, stop: stop}
	r.places[p.key] = h
	r.running.Go(func() {
		defer func() {
			h.ended.Store(true)
			select {
			case r.ended <- struct{}{}:
			default:
			}
		}()
		defer loop.Rest()
		h.err = p.run(ctx, patient)
	})
}

// stopAll ends the goroutines, releases the places and deletes the process's row.
func (r *Runner) stopAll(patient context.Context) {
	for _, h := range r.places {
		h.stop()
	}
	r.running.Wait()
	r.source.ahead.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(patient), registry.ReleaseTimeout)
	defer cancel()
	if err := r.release(ctx); err != nil {
		r.Cfg.Logger.WarnContext(ctx, "places across campaigns not released, they expire", "error", err)
	}
}

func (r *Runner) release(ctx context.Context) error {
	var seen *ledger.Seen
	if err := r.db.Use(ctx, func(conn *pgxpool.Conn) (err error) {
		seen, err = r.db.Look(ctx, conn, ledger.Look{Host: r.Host, Lives: tickEvery})
		return err
	}); err != nil {
		return err
	}
	return errors.Join(r.renew(ctx, seen.Instance), r.db.Forget(ctx))
}
