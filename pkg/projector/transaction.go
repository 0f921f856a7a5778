package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/failure"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/pipeline"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// transaction applies one group of units.
type transaction struct {
	*pipeline.Pipeline
	p        *applier
	pool     *pgxpool.Conn
	units    []*unit
	view     *registry.View
	path     string                                   // search_path in force
	pairs    map[string]map[string]*deferred.Standing // by campaign and projection
	leftOut  map[deferred.Key][]int64                 // events that operators have left out, by projection without its set and campaign
	events   []journal.Event                          // of all units, in order
	failures []*incident
	last     func()                                                                 // queues what ends it; nil: COMMIT
	verdicts map[failure.Verdict]error                                              // what is known of events beforehand
	limit    time.Duration                                                          // on statements, as the server took it when it began
	inForce  time.Duration                                                          // on statements, as asked for last
	patient  bool                                                                   // what it waits for locks is bounded in all
	blockers string                                                                 // who was in the way of its statements when they were looked for; "": nobody knows
	fenced   bool                                                                   // the fence stands
	mark     func(ctx context.Context, u *unit, projection string, seq int64) error // names each event before it is tried; nil: they are tried without
	trying   bool                                                                   // it is rolled back, and moves no pair
	calls    map[*registry.Known]string                                             // of the projections that the database applies
	claimed  bool                                                                   // its units are those that a claim queued before its read answers
}

// begin opens a transaction and reads what the units need, in one round trip.
func (a *applier) begin(ctx context.Context, units []*unit, events int) (*transaction, error) {
	return a.open(ctx, units, events, nil)
}

// open is begin, for a transaction in which the database applies the projections that have a call. If all have, it counts the events instead of reading them.
func (a *applier) open(ctx context.Context, units []*unit, events int, calls map[*registry.Known]string) (*transaction, error) {
	pulse.Of(ctx).Within(a.Promises.Step)
	conn, err := a.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a connection: %w", err)
	}
	t := a.on(conn, units, events, calls)
	t.Queue(queryBegin)
	t.queueSettings()
	if err := t.read(ctx, events); err != nil {
		t.abort(ctx)
		return nil, err
	}
	return t, nil
}

// suspectUnreadable makes the groups that follow a read which failed for an event find out which. It is spoiled then: each
// projection fails at it for good, and all else goes on.
func (a *applier) suspectUnreadable(err error) error {
	if journal.CannotRead(err) {
		a.unreadable.Store(savepointsAfter)
	}
	return err
}

// on returns a transaction that will be open on a connection of the pool, which it gives back.
func (a *applier) on(conn *pgxpool.Conn, units []*unit, events int, calls map[*registry.Known]string) *transaction {
	t := a.within(conn.Conn(), units, events)
	t.pool, t.calls, t.Timeout, t.inForce, t.Disconnect = conn, calls, a.Longest, a.Longest, disconnect(conn)
	return t
}

// within returns a transaction that is open on a connection, or will be by what is queued first.
func (a *applier) within(conn *pgx.Conn, units []*unit, events int) *transaction {
	t := &transaction{Pipeline: pipeline.NewPipeline(conn), p: a, units: units, path: a.SearchPath, pairs: map[string]map[string]*deferred.Standing{}, events: a.slabs.get(events)}
	t.Origins = a.slabs.getOrigins()
	t.Streams, t.Mode, t.Notice = a.Streams, a.Mode, a.Notice
	return t
}

// read reads what the units need, as many events at most, in one round trip with whatever is queued.
func (t *transaction) read(ctx context.Context, events int) error {
	p := t.p
	read := journal.GroupRead{Events: events, Bytes: p.Cfg.GroupBytes, Small: p.small.Load(), Careful: p.unreadable.Load() > 0}
	if t.claimed {
		read.Claimed = func(i int) (string, int64) { return t.units[i].lease.CampaignID, t.units[i].place }
	} else {
		read.CampaignIDs, read.After, read.Until = make([]string, len(t.units)), make([]int64, len(t.units)), make([]int64, len(t.units))
	}
	for i, u := range t.units {
		read.CampaignIDs[i], read.After[i], read.Until[i] = u.lease.CampaignID, u.place, u.until
		u.events, u.counted, u.hashed, u.spoiled, u.more = nil, 0, nil, nil, false
	}
	t.Queue(registry.QueryRegistryGroup, p.Cfg.ConsumerGroup)
	t.Queue(registry.QueryRegistry, p.Cfg.ConsumerGroup, []string(nil)).Query(func(rows pgx.Rows) error {
		registry, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registry.Registered])
		if err == nil {
			t.view = p.View(registry)
		}
		return err
	})
	t.Sync()
	deferred.Standings(t.Batch, p.Cfg.ConsumerGroup, read.CampaignIDs, func(d *deferred.Standing) {
		if t.pairs[d.CampaignID] == nil {
			t.pairs[d.CampaignID] = map[string]*deferred.Standing{}
		}
		t.pairs[d.CampaignID][d.Projection] = d
	})
	t.leftOut = nil
	retraces := slices.ContainsFunc(t.units, func(u *unit) bool { return u.pair != nil })
	if retraces {
		t.queueLeftOut(read.CampaignIDs)
	}
	n, size, reached, first := 0, int64(0), 0, 0
	counted := t.counts()
	visit := func(i int, e *journal.Event, bytes int) {
		if i != reached {
			reached, first = i, len(t.events)
		}
		t.events = append(t.events, *e)
		if p.Cfg.Catalogue != nil || e.Unreadable() != nil {
			current, err := p.Cfg.Catalogue.Current(*e)
			if err != nil {
				t.units[i].spoil(e.Seq, &failure.Undecodable{Err: err})
			}
			t.events[len(t.events)-1] = current
		}
		t.units[i].events = t.events[first:]
		size += int64(bytes)
		n++
	}
	t.Sync()
	if counted {
		count := func(i, events int) {
			t.units[i].counted, reached = events, i
			n += events
		}
		if p.Cfg.Proof {
			journal.HashGroup(t.Batch, read, func(i, events int, hash int64) {
				t.units[i].hashed = &hash
				count(i, events)
			})
		} else {
			journal.CountGroup(t.Batch, read, count)
		}
	} else {
		journal.ReadGroup(t.Batch, read, visit)
	}
	if err := t.Flush(ctx); err != nil {
		p.small.Store(false) // it may have been more than there was time for
		return t.blame(p.suspectUnreadable(err))
	}
	if p.unreadable.Load() > 0 {
		p.unreadable.Add(-1)
	}
	if !retraces && t.view.Ahead {
		t.queueLeftOut(t.campaigns())
		if err := t.Flush(ctx); err != nil {
			return t.blame(err)
		}
	}
	if counted && !t.counts() {
		// The registry has changed, and with it what there is to apply.
		n, reached = 0, 0
		for _, u := range t.units {
			u.counted = 0
		}
		journal.ReadGroup(t.Batch, read, visit)
		if err := t.Flush(ctx); err != nil {
			return t.blame(p.suspectUnreadable(err))
		}
	}
	if n >= events || size >= p.Cfg.GroupBytes {
		// The read stopped at its limit: the campaign it stopped in may go on, those after it wait for the next group.
		t.units = t.units[:reached+1]
		t.units[reached].more = true
	}
	for _, u := range t.units {
		u.more = u.more || u.probes()
	}
	if len(t.events) > 0 {
		// A full group of events four times as large would still fit.
		p.small.Store(4*size*int64(events) <= p.Cfg.GroupBytes*int64(n))
	}
	t.dropOutdated()
	return nil
}

// link links the group's span to the traces that its events come from.
func (t *transaction) link(ctx context.Context) {
	if t.p.Tracer != nil {
		tracing.Link(t.p.Tracer.Of(ctx), t.events, func(e *journal.Event) []byte { return e.Metadata })
	}
}

// counts says whether no event is needed here: the database applies all projections, and nobody follows traces.
func (t *transaction) counts() bool {
	v := t.view
	if v == nil {
		v = t.p.Seen.Load()
	}
	return v != nil && len(t.calls) > 0 && t.p.Tracer == nil && !slices.ContainsFunc(v.Projections, func(k *registry.Known) bool { return v.Rows[k.Name].State == registry.StateActive && t.calls[k] == "" })
}

// dropOutdated leaves alone those catch-up units whose pair is not what it was when they were claimed: the tables that it is about have been swapped, or dropped.
func (t *transaction) dropOutdated() {
	for _, u := range t.units {
		if u.pair == nil {
			continue
		}
		now, r := t.pairs[u.lease.CampaignID][u.pair.Projection], t.view.Rows[u.pair.Projection]
		if u.outdated = now == nil || now.NextSeq != u.place+1 && !t.trying || r == nil || r.State != registry.StateActive || t.view.Known(u.pair.Projection) == nil; u.outdated {
			u.events, u.counted, u.more = nil, 0, false
			continue
		}
		u.pair.Reset = now.Reset && (u.pair.Reset || !t.trying)
	}
}

// blame marks an error on a connection that has broken.
func (t *transaction) blame(err error) error {
	var late *DeadlineError
	if err == nil || t.Abandoned || errors.As(err, &late) || !t.Conn.IsClosed() || !t.Checks && pipeline.NeverSent(err) {
		return err
	}
	return &failure.BrokenError{Err: err}
}

// abort rolls back what has not been committed and gives the connection and the memory back. A connection in doubt is closed by the pool.
func (t *transaction) abort(ctx context.Context) {
	if t.pool == nil {
		return
	}
	if t.Abandoned { // who has it may go on with all of it
		t.pool.Hijack()
		t.pool = nil
		return
	}
	if conn := t.Conn.PgConn(); !conn.IsClosed() && conn.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_, _ = t.Conn.Exec(ctx, "ROLLBACK") // if it fails the pool closes the connection, which rolls back too
		cancel()
	}
	t.pool.Release()
	t.pool = nil
	t.recycle()
}

// recycle gives the memory back. Nothing of the transaction may be used after it.
func (t *transaction) recycle() {
	t.p.slabs.put(t.events)
	t.p.slabs.putOrigins(t.Origins)
}
