package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Transaction applies one group of units.
type Transaction struct {
	session
	groupState
	Applier *Applier
	last    func() // queues the end; nil: COMMIT
	fenced  bool   // the fence has run
	apart   bool   // one campaign, whose projections are applied one after the other
	marks   bool   // a mark names each event before it is tried
	// reports whether a unit with more to do gives its lease back
	yield     func(*Unit) bool
	readLimit time.Duration // of a read that is repeated; 0: that of other statements
	// SQL calls of the projections that the database applies
	calls map[*registry.Projection]string
	// a claim queued before the read fills in the units
	Claimed bool
}

// open opens a transaction and reads what the units need, in one round trip. The database applies
// the projections in calls: if that is all of them, open counts the events instead of reading them.
func (a *Applier) open(
	ctx context.Context, units []*Unit, events int, calls map[*registry.Projection]string,
) (*Transaction, error) {
	return a.openWithin(ctx, units, events, calls, 0)
}

// openWithin is open with a time limit of the read; 0: that of other statements.
func (a *Applier) openWithin(
	ctx context.Context, units []*Unit, events int, calls map[*registry.Projection]string, limit time.Duration,
) (*Transaction, error) {
	loops.Of(ctx).Within(a.Promises.Step + 2*limit)
	conn, err := a.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := a.On(conn, units, calls)
	t.readLimit = limit
	t.Queue(QueryBegin)
	t.QueueSettings()
	if err := t.Read(ctx, events); err != nil {
		t.Abort(ctx)
		return nil, err
	}
	return t, nil
}

// acquire returns a connection of the pool that changes no text on its way.
func (a *Applier) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := a.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a connection: %w", err)
	}
	if err := feed.CheckEncoding(conn.Conn()); err != nil {
		conn.Release()
		return nil, err
	}
	return conn, nil
}

// SuspectUnreadable makes the next groups read carefully, if an event has made a read fail. They
// find the event: each projection then fails at it permanently, and the rest goes on.
func (a *Applier) SuspectUnreadable(err error) error {
	if feed.CannotRead(err) {
		a.Unreadable.Store(savepointsAfter)
	}
	return err
}

// On returns a transaction for a connection of the pool, which Abort gives back.
func (a *Applier) On(
	conn *pgxpool.Conn, units []*Unit, calls map[*registry.Projection]string,
) *Transaction {
	t := a.within(conn.Conn(), units)
	t.Pool, t.calls, t.Timeout, t.InForce, t.Disconnect = conn, calls, a.Longest, a.Longest, disconnect(conn)
	return t
}

// within returns a transaction that is open on a connection, or that the first queued statement opens.
func (a *Applier) within(conn *pgx.Conn, units []*Unit) *Transaction {
	t := &Transaction{
		session: session{Pipeline: pipeline.NewPipeline(conn), base: a.Base, path: a.SearchPath},
		Applier: a, yield: yields, groupState: groupState{
			Units: units, standings: map[string]map[string]*failed.Standing{},
		},
	}
	t.Streams, t.Mode, t.Notice = a.Streams, a.Mode, a.Notice
	return t
}

// GroupRead returns the read that the units need, limited to so many events. It forgets the group before.
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

// Reading collects the result of a group's read, unit by unit.
type Reading struct {
	t              *Transaction
	n              int   // events
	size           int64 // their bytes
	reached, first int   // the current unit, and its first event in the transaction's
	from           int   // its own first event there
	sealed         bool  // an event has sealed fields
}

// Reading returns a reading that adds to the transaction's events.
func (t *Transaction) Reading() *Reading {
	return &Reading{t: t, first: len(t.Events), from: len(t.Events)}
}

// Visit adds an event of unit i, in the current version of its type.
func (r *Reading) Visit(i int, e *event.Event, bytes int) {
	t := r.t
	if i != r.reached {
		r.reached, r.first = i, len(t.Events)
	}
	t.Events = append(t.Events, *e)
	if catalogue := t.Applier.Cfg.Catalogue; catalogue.Seals(e) {
		r.sealed = true // see Open
	} else if catalogue != nil || e.Unreadable() != nil {
		current, err := catalogue.Current(*e)
		if err != nil {
			t.Units[i].MarkUnreadable(e.Seq, err)
		}
		t.Events[len(t.Events)-1] = current
	}
	t.Units[i].Events = t.Events[r.first:]
	r.size += int64(bytes)
	r.n++
}

// Open opens the sealed fields of what was read, and brings these events to their current version.
func (r *Reading) Open(ctx context.Context) error {
	if !r.sealed {
		return nil
	}
	t, catalogue := r.t, r.t.Applier.Cfg.Catalogue
	events := t.Events[r.from:]
	sealed := slice.Of(events, func(e event.Event) bool { return catalogue.Seals(&e) })
	faults, err := catalogue.Open(ctx, t.Conn, events)
	if err != nil {
		return t.Blame(err)
	}
	at := 0
	for _, u := range t.Units {
		u.Events = events[at : at+len(u.Events)] // the slice has moved since the unit was read
		for i := range u.Events {
			if e := &u.Events[i]; sealed[at+i] {
				err := faults[e.Position]
				if err == nil {
					*e, err = catalogue.Current(*e)
				}
				if err != nil {
					u.MarkUnreadable(e.Seq, err)
				}
			}
		}
		at += len(u.Events)
	}
	return nil
}

// queue queues the read, or one that counts the events and, for a proof, hashes them.
func (r *Reading) queue(read feed.GroupRead, counted bool) {
	t := r.t
	archived := func() { t.calls = nil } // the database lacks events
	switch {
	case counted && t.Applier.Cfg.Proof:
		feed.HashGroup(t.Batch, read, func(i, events int, hash int64) {
			t.Units[i].hashed = &hash
			r.count(i, events)
		}, archived)
	case counted:
		feed.CountGroup(t.Batch, read, r.count, archived)
	default:
		feed.ReadGroup(t.Batch, read, r.Visit)
	}
}

func (r *Reading) count(i, events int) {
	r.t.Units[i].counted, r.reached = events, i
	r.n += events
}

// End cuts the group off where the read reached its limit. The unit it stopped in may have more
// events; those after it wait for the next group.
func (r *Reading) End(read feed.GroupRead) {
	if r.n >= read.Events || r.size >= read.Bytes {
		r.t.Units = r.t.Units[:r.reached+1]
		r.t.Units[r.reached].More = true
	}
}

// Read reads what the units need, limited to so many events, in one round trip with what is queued.
func (t *Transaction) Read(ctx context.Context, events int) error {
	p := t.Applier
	read := t.GroupRead(events)
	read.Small, read.Expand = p.small.Load(), t.expand(ctx)
	t.queueState(read.CampaignIDs)
	retraces := slices.ContainsFunc(t.Units, func(u *Unit) bool { return u.Standing != nil })
	if retraces {
		t.queueLeftOut(read.CampaignIDs)
	}
	if t.Events == nil {
		t.Events = make([]event.Event, 0, p.before.Load())
	}
	found, counted := t.Reading(), t.counts()
	if err := t.raiseLimit(ctx); err != nil {
		return err
	}
	t.Sync()
	found.queue(read, counted)
	if err := t.flushRead(ctx); err != nil {
		return err
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
		// The registry has changed, or the database lacks archived events: they are needed here.
		found = t.Reading()
		for _, u := range t.Units {
			u.counted, u.hashed = 0, nil
		}
		found.queue(read, false)
		if err := t.flushRead(ctx); err != nil {
			return err
		}
	}
	t.lowerLimit()
	if err := found.Open(ctx); err != nil {
		return err
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

// expand returns how to read the events of an archived campaign.
func (t *Transaction) expand(
	ctx context.Context,
) func(stub *event.Event, after, until int64, visit func(*event.Event) bool) error {
	expands := feed.Expands(ctx, t.Applier.Cfg.Archive)
	return func(stub *event.Event, after, until int64, visit func(*event.Event) bool) error {
		t.calls = nil // the database lacks the events
		at := after
		err := expands(stub, after, until, func(e *event.Event) bool {
			at = e.Seq
			return visit(e)
		})
		if err != nil && feed.Missing(stub, at, until, err, visit) {
			return nil
		}
		return err
	}
}

// queueState queues the read of the registry, and of where the campaigns' failed projections stand.
func (t *Transaction) queueState(campaigns []string) {
	group := t.Applier.Cfg.ConsumerGroup
	t.Queue(registry.QueryRegistryGroup, group)
	t.Queue(registry.QueryRegistry, group, []string(nil)).Query(func(rows pgx.Rows) error {
		registry, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registry.Registered])
		if err == nil {
			t.view = t.Applier.View(registry)
		}
		return err
	})
	t.Sync()
	failed.Standings(t.Batch, group, campaigns, t.stop)
	t.LeftOut = nil
}

// link links the group's span to the traces that its events come from.
func (t *Transaction) link(ctx context.Context) {
	if t.Applier.Tracer != nil {
		tracing.Link(t.Applier.Tracer.Of(ctx), t.Events, func(e *event.Event) []byte { return e.Metadata })
	}
}

// counts reports whether no events are needed here: the database applies all projections, and traces are off.
func (t *Transaction) counts() bool {
	v := cmp.Or(t.view, t.Applier.Seen.Load())
	return v != nil && len(t.calls) > 0 && t.Applier.Tracer == nil &&
		!slices.ContainsFunc(v.Projections, func(k *registry.Projection) bool {
			return v.Rows[k.Name].State == registry.StateActive && t.calls[k] == ""
		})
}

// dropOutdated empties catch-up units whose tables have been swapped or dropped since they were claimed.
func (t *Transaction) dropOutdated() {
	for _, u := range t.Units {
		if u.Standing == nil {
			continue
		}
		now, r := t.standings[u.Lease.CampaignID][u.Standing.Projection], t.view.Rows[u.Standing.Projection]
		if u.outdated = now == nil || now.NextSeq != u.Place+1 && !t.trying || r == nil || r.State != registry.StateActive ||
			t.view.Projection(u.Standing.Projection) == nil; u.outdated {
			u.Events, u.counted, u.More = nil, 0, false
			continue
		}
		u.Standing.Reset = now.Reset && (u.Standing.Reset || !t.trying)
	}
}

// Abort rolls back what is not committed, and gives the connection back. The pool closes a connection in doubt.
func (t *Transaction) Abort(ctx context.Context) {
	if t.Pool == nil {
		return
	}
	if t.Abandoned { // the abandoned code may still use it
		t.Pool.Hijack()
		t.Pool = nil
		return
	}
	if conn := t.Conn.PgConn(); !conn.IsClosed() && conn.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_, _ = t.Conn.Exec(ctx, "ROLLBACK") // if it fails, the pool closes the connection, which also rolls back
		cancel()
	} else if conn.IsClosed() { // pgx still waits for the server, whose session would keep its locks meanwhile
		_ = conn.Conn().Close()
	}
	t.Pool.Release()
	t.Pool = nil
}
