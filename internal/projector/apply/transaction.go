package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Transaction applies one group of units.
type Transaction struct {
	session
	groupState
	Applier *Applier
	last    func() // queues what ends it; nil: COMMIT
	fenced  bool   // the fence stands
	apart   bool   // one campaign, of which projections are applied one after the other
	marks   bool   // each event is named by a mark before it is tried
	// whether a unit with more to do gives its lease back
	yield func(*Unit) bool
	// of the projections that the database applies
	calls map[*registry.Projection]string
	// its units are those that a claim queued before its read answers
	Claimed bool
}

// open opens a transaction and reads what the units need, in one round trip. The database applies
// the projections that have a call: if all have, it counts the events instead of reading them.
func (a *Applier) open(
	ctx context.Context, units []*Unit, events int, calls map[*registry.Projection]string,
) (*Transaction, error) {
	pulse.Of(ctx).Within(a.Promises.Step)
	conn, err := a.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a connection: %w", err)
	}
	t := a.On(conn, units, calls)
	t.Queue(QueryBegin)
	t.QueueSettings()
	if err := t.Read(ctx, events); err != nil {
		t.Abort(ctx)
		return nil, err
	}
	return t, nil
}

// SuspectUnreadable makes the groups that follow a read which failed for an event find out which.
// It is unreadable then: each projection fails at it for good, and all else goes on.
func (a *Applier) SuspectUnreadable(err error) error {
	if feed.CannotRead(err) {
		a.Unreadable.Store(savepointsAfter)
	}
	return err
}

// On returns a transaction that will be open on a connection of the pool, which it gives back.
func (a *Applier) On(
	conn *pgxpool.Conn, units []*Unit, calls map[*registry.Projection]string,
) *Transaction {
	t := a.within(conn.Conn(), units)
	t.Pool, t.calls, t.Timeout, t.InForce, t.Disconnect = conn, calls, a.Longest, a.Longest, disconnect(conn)
	return t
}

// within returns a transaction that is open on a connection, or will be by what is queued first.
func (a *Applier) within(conn *pgx.Conn, units []*Unit) *Transaction {
	t := &Transaction{
		session: session{Pipeline: pipeline.NewPipeline(conn), base: a.Base, path: a.SearchPath},
		Applier: a, yield: yields, groupState: groupState{
			Units: units, pairs: map[string]map[string]*failed.Standing{},
		},
	}
	t.Streams, t.Mode, t.Notice = a.Streams, a.Mode, a.Notice
	return t
}

// GroupRead says what the units need, as many events at most, and forgets the group before.
func (t *Transaction) GroupRead(events int) feed.GroupRead {
	read := feed.GroupRead{
		Events: events, Bytes: t.Applier.Cfg.GroupBytes, Careful: t.Applier.Unreadable.Load() > 0,
	}
	if t.Claimed {
		read.Claimed = func(i int) (string, int64) { return t.Units[i].Lease.CampaignID, t.Units[i].Place }
		return read
	}
	read.CampaignIDs, read.After, read.Until = make([]string, len(t.Units)), make([]int64, len(t.Units)),
		make([]int64, len(t.Units))
	for i, u := range t.Units {
		read.CampaignIDs[i], read.After[i], read.Until[i] = u.Lease.CampaignID, u.Place, u.Until
		u.Events, u.counted, u.hashed, u.Unreadable, u.More = nil, 0, nil, nil, false
	}
	return read
}

// Reading takes what a group's read answers, unit by unit.
type Reading struct {
	t              *Transaction
	n              int   // events
	size           int64 // their bytes
	reached, first int   // the unit, and the first event of it among the transaction's
}

// Reading takes the events behind those that the transaction has.
func (t *Transaction) Reading() *Reading { return &Reading{t: t, first: len(t.Events)} }

// Visit takes an event of unit i, in the current version of its type.
func (r *Reading) Visit(i int, e *journal.Event, bytes int) {
	t := r.t
	if i != r.reached {
		r.reached, r.first = i, len(t.Events)
	}
	t.Events = append(t.Events, *e)
	if catalogue := t.Applier.Cfg.Catalogue; catalogue != nil || e.Unreadable() != nil {
		current, err := catalogue.Current(*e)
		if err != nil {
			t.Units[i].MarkUnreadable(e.Seq, &failure.Undecodable{Err: err})
		}
		t.Events[len(t.Events)-1] = current
	}
	t.Units[i].Events = t.Events[r.first:]
	r.size += int64(bytes)
	r.n++
}

// count takes the number of unit i's events.
func (r *Reading) count(i, events int) {
	r.t.Units[i].counted, r.reached = events, i
	r.n += events
}

// End ends the group where the read has stopped at its limit: the campaign it stopped in may go on,
// those after it wait for the next group.
func (r *Reading) End(read feed.GroupRead) {
	if r.n >= read.Events || r.size >= read.Bytes {
		r.t.Units = r.t.Units[:r.reached+1]
		r.t.Units[r.reached].More = true
	}
}

// Read reads what the units need, as many events at most, in one round trip with what is queued.
func (t *Transaction) Read(ctx context.Context, events int) error {
	p := t.Applier
	read := t.GroupRead(events)
	read.Small = p.small.Load()
	t.Queue(registry.QueryRegistryGroup, p.Cfg.ConsumerGroup)
	t.Queue(registry.QueryRegistry, p.Cfg.ConsumerGroup, []string(nil)).Query(func(rows pgx.Rows) error {
		registry, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registry.Registered])
		if err == nil {
			t.view = p.View(registry)
		}
		return err
	})
	t.Sync()
	failed.Standings(t.Batch, p.Cfg.ConsumerGroup, read.CampaignIDs, func(d *failed.Standing) {
		if t.pairs[d.CampaignID] == nil {
			t.pairs[d.CampaignID] = map[string]*failed.Standing{}
		}
		t.pairs[d.CampaignID][d.Projection] = d
	})
	t.LeftOut = nil
	retraces := slices.ContainsFunc(t.Units, func(u *Unit) bool { return u.Pair != nil })
	if retraces {
		t.queueLeftOut(read.CampaignIDs)
	}
	if t.Events == nil {
		t.Events = make([]journal.Event, 0, p.before.Load())
	}
	found, counted := t.Reading(), t.counts()
	t.Sync()
	switch {
	case counted && p.Cfg.Proof:
		feed.HashGroup(t.Batch, read, func(i, events int, hash int64) {
			t.Units[i].hashed = &hash
			found.count(i, events)
		})
	case counted:
		feed.CountGroup(t.Batch, read, found.count)
	default:
		feed.ReadGroup(t.Batch, read, found.Visit)
	}
	if err := t.Flush(ctx); err != nil {
		p.small.Store(false) // it may have been more than there was time for
		return t.Blame(p.SuspectUnreadable(err))
	}
	if p.Unreadable.Load() > 0 {
		p.Unreadable.Add(-1)
	}
	if !retraces && t.view.Ahead {
		t.queueLeftOut(t.campaigns())
		if err := t.Flush(ctx); err != nil {
			return t.Blame(err)
		}
	}
	if counted && !t.counts() {
		// The registry has changed, and with it what there is to apply.
		found = t.Reading()
		for _, u := range t.Units {
			u.counted = 0
		}
		feed.ReadGroup(t.Batch, read, found.Visit)
		if err := t.Flush(ctx); err != nil {
			return t.Blame(p.SuspectUnreadable(err))
		}
	}
	found.End(read)
	for _, u := range t.Units {
		u.More = u.More || u.probes()
	}
	p.before.Store(int64(len(t.Events)))
	if len(t.Events) > 0 {
		// A full group of events four times as large would still fit.
		p.small.Store(4*found.size*int64(events) <= read.Bytes*int64(found.n))
	}
	t.dropOutdated()
	return nil
}

// link links the group's span to the traces that its events come from.
func (t *Transaction) link(ctx context.Context) {
	if t.Applier.Tracer != nil {
		tracing.Link(t.Applier.Tracer.Of(ctx), t.Events, func(e *journal.Event) []byte { return e.Metadata })
	}
}

// counts says whether no event is needed here: the database applies all projections, and traces are off.
func (t *Transaction) counts() bool {
	v := t.view
	if v == nil {
		v = t.Applier.Seen.Load()
	}
	return v != nil && len(t.calls) > 0 && t.Applier.Tracer == nil &&
		!slices.ContainsFunc(v.Projections, func(k *registry.Projection) bool {
			return v.Rows[k.Name].State == registry.StateActive && t.calls[k] == ""
		})
}

// dropOutdated leaves alone those catch-up units whose pair is not what it was when they were
// claimed: the tables that it is about have been swapped, or dropped.
func (t *Transaction) dropOutdated() {
	for _, u := range t.Units {
		if u.Pair == nil {
			continue
		}
		now, r := t.pairs[u.Lease.CampaignID][u.Pair.Projection], t.view.Rows[u.Pair.Projection]
		if u.outdated = now == nil || now.NextSeq != u.Place+1 && !t.trying || r == nil || r.State != registry.StateActive ||
			t.view.Projection(u.Pair.Projection) == nil; u.outdated {
			u.Events, u.counted, u.More = nil, 0, false
			continue
		}
		u.Pair.Reset = now.Reset && (u.Pair.Reset || !t.trying)
	}
}

// Abort rolls back what has not been committed and gives the connection back. A connection in doubt is
// closed by the pool.
func (t *Transaction) Abort(ctx context.Context) {
	if t.Pool == nil {
		return
	}
	if t.Abandoned { // who has it may go on with all of it
		t.Pool.Hijack()
		t.Pool = nil
		return
	}
	if conn := t.Conn.PgConn(); !conn.IsClosed() && conn.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_, _ = t.Conn.Exec(ctx, "ROLLBACK") // if it fails the pool closes the connection, which rolls back too
		cancel()
	}
	t.Pool.Release()
	t.Pool = nil
}
