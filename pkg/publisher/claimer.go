package publisher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// claimer periodically claims the pairs assigned to this process and releases those assigned to others.
type claimer struct {
	*agenda
	reader  *reader
	saver   *saver
	history *history
	drainer *drainer

	host        string
	registered  bool // all pairs have a row
	ticking     bool
	early       bool                       // the next tick was requested since the current one began
	generations map[publications.Key]int64 // the last seen generation of each pair
}

// tick is one look at everything except the journal: relays, operators' acts, free pairs, due retries.
type tick struct {
	*ledger.Seen
	started  time.Time
	holding  map[publications.Key]bool
	head     int64                       // the end of the journal at the last read
	saved    map[publications.Key]int64  // the last position of each pair known to be written
	mine     []publications.Key          // active pairs that this process holds
	assigned map[publications.Key]string // the relay that each pair is assigned to
	claimed  []ledger.Claimed
}

// dueEach limits the campaigns of a pair that start catching up in one tick.
const dueEach = 16

func (c *claimer) tick(now time.Time) {
	c.ticking, c.early = true, false
	t := &tick{
		started: now, holding: map[publications.Key]bool{}, head: c.reader.head, saved: map[publications.Key]int64{},
	}
	for key, p := range c.pairs {
		t.holding[key], t.saved[key] = true, p.saved
		if !p.leaving && !now.Before(p.notBefore) {
			t.mine = append(t.mine, key)
		}
	}
	c.timed(c.cfg.LeaseTTL/2, func(ctx context.Context) error {
		return c.db.Use(ctx, func(conn *pgxpool.Conn) error { return c.observe(ctx, conn, t) })
	}, func(err error) { c.ticked(t, err) })
}

// observe reads everything, then claims the free pairs assigned to this process.
func (c *claimer) observe(ctx context.Context, conn *pgxpool.Conn, t *tick) error {
	if !c.registered {
		if err := c.register(ctx, conn); err != nil {
			return err
		}
	}
	look := ledger.Look{
		Host: c.host, Knows: slices.Collect(maps.Keys(c.routes)), Lives: 4 * c.tickEvery, Holding: len(t.holding),
		Mine: t.mine, Due: dueEach,
	}
	seen, err := c.db.Look(ctx, conn, look)
	if err != nil {
		return err
	}
	t.Seen, t.assigned = seen, ledger.Assign(seen.Relays, seen.Pairs)
	return c.claim(ctx, conn, t)
}

func (c *claimer) claim(ctx context.Context, conn *pgxpool.Conn, t *tick) (err error) {
	var free []publications.Key
	for _, row := range t.Pairs {
		key := row.Key
		switch {
		case c.routes[key] == nil || !row.Active || row.Leased || t.holding[key]:
			// Do not claim a pair we hold: in a restored database our own late writes would fit the new lease.
		case row.Position > row.Last:
			if err := c.refuseAhead(ctx, conn, row); err != nil {
				return err
			}
		case t.assigned[key] == c.owner:
			free = append(free, row.Key)
		}
	}
	if len(free) > 0 {
		t.claimed, err = c.db.Claim(ctx, conn, free)
	}
	return err
}

// refuseAhead stops a pair whose position the journal has never assigned, as after a restore from an
// older backup. It would silently skip what is appended until the journal reaches that position again.
func (c *claimer) refuseAhead(ctx context.Context, conn *pgxpool.Conn, row ledger.Row) error {
	reason := fmt.Sprintf("position %d is ahead of the journal, which ends at %d: the database was restored from an "+
		"older backup, or the position was set by hand. Reset the pair to a position up to %d",
		row.Position, row.Last, row.Last)
	ahead, err := ledger.RefuseAhead(ctx, conn, row.Key, reason)
	if ahead {
		c.cfg.Logger.ErrorContext(ctx, "publishing stops", "topic", row.Topic, "publisher", row.Publisher,
			"status", "FAILED", "error", reason)
	}
	return err
}

// restored reports whether the journal may have been replaced by a backup: the database is another
// instance, the journal ends before a position it had reached, or a pair's row is older than before. The
// same positions may then hold other events, unless the server has only been restarted.
func (c *claimer) restored(t *tick) bool {
	why, restarted := "", false
	if c.instance != "" && c.instance != t.Instance {
		why = "its history is another one, after a failover, a restore or a crash"
		if restarted = ledger.History(c.instance) == ledger.History(t.Instance); restarted {
			why = "its server was restarted"
		}
	}
	c.instance = t.Instance
	for _, row := range t.Pairs {
		key := row.Key
		switch known := c.generations[key]; {
		case row.Last < t.head:
			restarted, why = false, fmt.Sprintf("the journal ends at %d, and was read up to %d", row.Last, t.head)
		case row.Generation < known:
			restarted, why = false, fmt.Sprintf("%s has generation %d, and had %d", key, row.Generation, known)
		case row.Generation == known && row.Position < t.saved[key]: // no write of a relay moves a position back
			restarted, why = false, fmt.Sprintf("%s is at position %d, and was at %d", key, row.Position, t.saved[key])
		}
		c.generations[key] = row.Generation
	}
	if why == "" {
		return false
	}
	c.cfg.Logger.WarnContext(c.ctx, "the database may have been restored from a backup: discarding what was read",
		"reason", why)
	c.journals++
	c.history.doubtful = c.history.doubtful || !restarted
	c.reader.forget()
	return true
}

func (c *claimer) tickSoon() { c.nextTick, c.early = time.Time{}, true }

func (c *claimer) ticked(t *tick, err error) {
	c.ticking = false
	now := time.Now()
	if c.nextTick = now.Add(c.tickEvery); c.early {
		c.nextTick = now
	}
	if err != nil {
		c.unwritten(err, "that this process publishes")
		// Pairs claimed before the error are unknown here: their leases expire.
		return
	}
	c.registered = true
	if c.stopping {
		c.giveBack(t)
		return
	}
	another := c.instance != "" && c.instance != t.Instance
	restored := c.restored(t)
	if c.reader.cache.Forget(t.Erased) {
		for _, p := range c.pairs {
			p.erased = true
			c.look(p)
		}
	}
	var back []written // to be claimed again
	for _, row := range t.Pairs {
		switch p := c.pairs[row.Key]; {
		case p == nil && restored && row.Leased && row.Owner == c.owner && c.routes[row.Key] != nil:
			// The pair was dropped when a write of its row changed nothing.
			lost := pair{route: c.routes[row.Key], tenure: tenure{generation: row.Generation}}
			back = append(back, lost.giveBack(row.Position))
		case p != nil && p.claimed.Before(t.started):
			back = c.keep(p, row, t, another, restored, back)
		}
	}
	c.saver.release(back)
	c.history.findGhosts()
	for _, row := range t.claimed {
		c.hold(row, t, now)
	}
	c.drainer.take(t.Due, t.started)
	c.metrics.Held.Set(float64(len(c.pairs)))
}

// keep goes on with a pair, or drops or leaves it, as its row and the assignments say. It adds what is to be given
// back at once to back.
func (c *claimer) keep(p *pair, row ledger.Row, t *tick, another, restored bool, back []written) []written {
	switch to := t.assigned[row.Key]; {
	case row.Owner != c.owner || row.Generation != p.generation:
		c.metrics.Lost.Inc()
		c.drop(p)
	case !another && (!row.Active || row.Position > row.Last || restored && p.read > row.Last):
		c.leave(p) // it saves its position as it leaves
	case restored: // its progress was in the previous journal, and is not saved in this one: start from its row
		c.drop(p)
		return append(back, p.giveBack(row.Position))
	case to != "" && to != c.owner:
		c.leave(p)
	}
	return back
}

func (c *claimer) hold(row ledger.Claimed, t *tick, now time.Time) {
	key := row.Key
	if old := c.pairs[key]; old != nil {
		c.drop(old)
	}
	p := &pair{
		route: c.routes[key],
		tenure: tenure{
			generation: row.Generation, instance: t.Instance, claimed: now,
			trusted: t.started.Add(c.cfg.LeaseTTL),
		},
		place:     place{read: row.Position, acked: row.Position, saved: row.Position},
		holds:     holds{held: map[string]int64{}, draining: map[string]bool{}, drained: map[string]time.Time{}},
		condition: condition{failures: row.Errors},
	}
	if row.Wait > 0 {
		p.notBefore = now.Add(min(row.Wait, retryAfterMax))
	}
	for _, campaign := range row.Held {
		p.held[campaign] = row.Position
	}
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.drains, p.stopDrains = context.WithCancel(p.ctx)
	c.pairs[key] = p
	c.generations[key] = row.Generation
	c.look(p)
}

// giveBack releases pairs that were claimed during the shutdown.
func (c *claimer) giveBack(t *tick) {
	for _, row := range t.claimed {
		c.hold(row, t, time.Now())
		c.leave(c.pairs[row.Key])
	}
}
