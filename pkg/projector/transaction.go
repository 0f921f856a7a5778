package projector

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// transaction applies one group of units.
type transaction struct {
	*pipeline
	p         *Projector
	pool      *pgxpool.Conn
	units     []*unit
	registry  []registered
	pairs     map[string]map[string]*pair // by campaign and projection
	events    []journal.Event             // of all units, in order
	deferrals []*ApplyError
}

// registered is a row of tidemark.projections.
type registered struct {
	Name          string
	Version       int
	State         string
	ConsumerGroup string
	SchemaName    string
	TableNames    []string
}

// begin opens a transaction and reads what the units need, in one round trip.
func (p *Projector) begin(ctx context.Context, units []*unit, events int) (*transaction, error) {
	conn, err := p.cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a connection: %w", err)
	}
	t := &transaction{pipeline: newPipeline(conn.Conn()), p: p, pool: conn, units: units, pairs: map[string]map[string]*pair{}, events: p.slabs.get(events)}
	t.origins = p.slabs.getOrigins()
	ids := make([]string, len(units))
	read := journal.GroupRead{CampaignIDs: ids, After: make([]int64, len(units)), Until: make([]int64, len(units)), Events: events, Bytes: p.cfg.GroupBytes}
	for i, u := range units {
		ids[i], read.After[i], read.Until[i] = u.lease.CampaignID, u.place, u.until
		u.events, u.spoiled, u.more = nil, nil, false
	}
	t.queue(queryBegin)
	t.queue(querySettings, p.searchPath, strconv.FormatInt(p.cfg.LeaseTTL.Milliseconds(), 10))
	t.queue(queryRegistryShared)
	t.queue(queryRegistry, p.cfg.ConsumerGroup, []string(nil)).Query(func(rows pgx.Rows) (err error) {
		t.registry, err = pgx.CollectRows(rows, pgx.RowToStructByPos[registered])
		return err
	})
	t.queue(queryPairs, ids, p.cfg.ConsumerGroup).Query(func(rows pgx.Rows) error {
		pairs, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[pair])
		for _, d := range pairs {
			if t.pairs[d.CampaignID] == nil {
				t.pairs[d.CampaignID] = map[string]*pair{}
			}
			t.pairs[d.CampaignID][d.Projection] = d
		}
		return err
	})
	size, reached, first := int64(0), 0, 0
	t.sync()
	journal.ReadGroup(t.batch, read, func(i int, e journal.Event, bytes int) {
		current, err := p.cfg.Catalogue.Current(e)
		if err != nil {
			units[i].spoil(e.Seq, err)
		}
		if i != reached {
			reached, first = i, len(t.events)
		}
		t.events = append(t.events, current)
		units[i].events = t.events[first:]
		size += int64(bytes)
	})
	if err := t.flush(ctx); err != nil {
		t.abort(ctx)
		return nil, err
	}
	if len(t.events) >= events || size >= p.cfg.GroupBytes {
		// The read stopped at its limit: the campaign it stopped in may go on, those after it wait for the next group.
		t.units = units[:reached+1]
		units[reached].more = true
	}
	return t, nil
}

// applyAll hands every projection the events it wants of the units, as one group each.
func (t *transaction) applyAll(ctx context.Context) error {
	groups := make([]*Group, 0, len(t.p.projections))
	for _, k := range t.p.projections {
		events, err := t.wanted(k, t.units)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			continue
		}
		g := &Group{Events: events, projection: k.spec.Name, pipeline: t.pipeline}
		groups = append(groups, g)
		if err := t.p.load(ctx, k, g); err != nil {
			return err
		}
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	for _, g := range groups {
		if err := t.p.apply(ctx, t.p.known[g.projection], g); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the events of the units that a projection is to apply, in order.
func (t *transaction) wanted(k *known, units []*unit) ([]journal.Event, error) {
	n, total := 0, 0
	for _, u := range units {
		total += len(u.events)
		if !t.applies(k, u) {
			continue
		}
		for i := range u.events {
			if !k.wants(&u.events[i]) {
				continue
			}
			if err := u.spoiled[u.events[i].Seq]; err != nil {
				return nil, k.origin(u.events[i]).wrap(err)
			}
			n++
		}
	}
	switch {
	case n == 0:
		return nil, nil
	case n == len(t.events) && total == n:
		return t.events, nil
	}
	wanted := make([]journal.Event, 0, n)
	for _, u := range units {
		if !t.applies(k, u) {
			continue
		}
		for i := range u.events {
			if k.wants(&u.events[i]) {
				wanted = append(wanted, u.events[i])
			}
		}
	}
	return wanted, nil
}

// applies says whether the unit brings the projection forward.
func (t *transaction) applies(k *known, u *unit) bool {
	if u.pair != nil {
		return u.pair.Projection == k.spec.Name
	}
	return t.inStep(k.spec.Name, k.spec.Version) && t.pairs[u.lease.CampaignID][k.spec.Name] == nil
}

// inStep says whether the registry lets this worker advance the projection along with its group.
func (t *transaction) inStep(name string, version int) bool {
	for _, r := range t.registry {
		if r.Name == name {
			return r.State == stateActive && r.Version == version
		}
	}
	return false
}

// finish writes what follows from the events of the units having been applied, and commits, in one round trip with whatever is queued.
// Units without more to do give their lease back; those with more give it back if yield says so.
func (t *transaction) finish(ctx context.Context, yield func(*unit) bool) error {
	t.at = origin{}
	t.filePairs()
	t.movePairs()

	// One step a lease: several pairs of one campaign share it.
	steps := make([]lease.Step, 0, len(t.units))
	var done []string
	var upTo []int64
	for i, u := range t.units {
		release := !u.more || yield(u)
		if i > 0 && t.units[i-1].lease.CampaignID == u.lease.CampaignID {
			steps[len(steps)-1].Release = steps[len(steps)-1].Release && release
			continue
		}
		s := u.step(release)
		steps = append(steps, s)
		if u.pair == nil {
			done, upTo = append(done, s.CampaignID), append(upTo, s.To)
		}
	}
	t.sync()
	t.p.keeper.Advance(t.batch, steps)
	if len(done) > 0 {
		outbox.Complete(t.batch, t.p.cfg.ConsumerGroup, done, upTo)
	}
	t.queue(queryCommit)
	if err := lease.Error(t.flush(ctx)); err != nil {
		return err
	}
	for _, u := range t.units {
		u.settle()
	}
	return nil
}

// filePairs files the campaigns that move for every projection of the group that does not move with them: one that is joining, and one that
// this worker does not know in the version registered.
func (t *transaction) filePairs() {
	var campaigns, projections []string
	var places []int64
	for _, r := range t.registry {
		if r.State == stateActive && t.p.known[r.Name] != nil && t.p.known[r.Name].spec.Version == r.Version {
			continue
		}
		for _, u := range t.units {
			if u.pair != nil || len(u.events) == 0 || t.pairs[u.lease.CampaignID][r.Name] != nil {
				continue
			}
			next := u.place + 1
			if r.State == stateJoining {
				next = 1
			}
			campaigns, projections, places = append(campaigns, u.lease.CampaignID), append(projections, r.Name), append(places, next)
		}
	}
	if len(campaigns) > 0 {
		t.queue(queryFilePairs, t.p.cfg.ConsumerGroup, campaigns, projections, places)
	}
}

// movePairs moves the pairs of catch-up units, and removes those that have caught up.
func (t *transaction) movePairs() {
	var moved, caughtUp struct{ campaigns, projections []string }
	var places []int64
	for _, u := range t.units {
		if u.pair == nil || t.isDeferred(u) {
			continue
		}
		if u.more {
			moved.campaigns, moved.projections = append(moved.campaigns, u.lease.CampaignID), append(moved.projections, u.pair.Projection)
			places = append(places, u.last()+1)
			continue
		}
		caughtUp.campaigns, caughtUp.projections = append(caughtUp.campaigns, u.lease.CampaignID), append(caughtUp.projections, u.pair.Projection)
	}
	if len(places) > 0 {
		t.queue(queryProgress, moved.campaigns, moved.projections, places)
	}
	if len(caughtUp.campaigns) > 0 {
		t.queue(queryCaughtUp, caughtUp.campaigns, caughtUp.projections)
	}
}

func (t *transaction) isDeferred(u *unit) bool {
	for _, d := range t.deferrals {
		if d.CampaignID == u.lease.CampaignID && u.pair != nil && d.Projection == u.pair.Projection {
			return true
		}
	}
	return false
}

// abort rolls back what has not been committed and gives the connection and the memory back. A connection in doubt is closed by the pool.
func (t *transaction) abort(ctx context.Context) {
	if t.pool == nil {
		return
	}
	if conn := t.conn.PgConn(); !conn.IsClosed() && conn.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_, _ = t.conn.Exec(ctx, "ROLLBACK") // if it fails the pool closes the connection, which rolls back too
		cancel()
	}
	t.pool.Release()
	t.pool = nil
	t.p.slabs.put(t.events)
	t.p.slabs.putOrigins(t.origins)
}
