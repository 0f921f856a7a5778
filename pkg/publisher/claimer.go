package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// claimer looks at the tables now and then, takes the pairs that are this process's, and gives back those that are another's.
type claimer struct {
	*agenda
	registrar *registrar
	reader    *reader
	saver     *saver
	history   *history
	drainer   *drainer

	ticking     bool
	nudged      bool                    // since the tick under way began
	generations map[Key]int64           // of pairs, the last that was seen
	members     map[string]map[Key]bool // relays and what they know
}

// tick is a look at everything that is not the journal: who else publishes, what operators have done to pairs, which pairs are free, what is to be tried again.
type tick struct {
	started  time.Time
	holding  map[Key]bool
	instance string          // of the database
	head     int64           // where the journal ended before
	saved    map[Key]int64   // up to where pairs were known to be written before
	mine     []Key           // active pairs that are held
	known    map[string]bool // relays whose knowledge is known
	members  map[string]map[Key]bool
	rows     []pairRow
	due      []parkedRow
	claimed  []claimedRow
	holds    map[Key][]string // campaigns held back, of those claimed
}

// pairRow is a row of publications, as far as all relays look at it.
type pairRow struct {
	Key
	position   int64
	active     bool
	owner      string
	generation int64
	leased     bool
	last       int64
}

type claimedRow struct {
	Key
	generation, position int64
	errors               int
	wait                 time.Duration
}

// dueEach is how many campaigns of a pair are brought back in one tick, at most.
const dueEach = 16

// tick starts a look.
func (c *claimer) tick(now time.Time) {
	c.ticking, c.nudged = true, false
	t := &tick{started: now, holding: map[Key]bool{}, head: c.reader.head, saved: map[Key]int64{}, known: map[string]bool{}, members: map[string]map[Key]bool{}}
	for owner := range c.members {
		t.known[owner] = true
	}
	for key, p := range c.pairs {
		t.holding[key], t.saved[key] = true, p.saved
		if !p.leaving && !now.Before(p.notBefore) {
			t.mine = append(t.mine, key)
		}
	}
	ctx := c.ctx
	c.job(func() func() {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.LeaseTTL/2)
		defer cancel()
		err := c.db.use(ctx, func(conn *pgxpool.Conn) error { return c.observe(ctx, conn, t) })
		return func() { c.ticked(t, err) }
	})
}

// observe reads all, then claims what is ours and free.
func (c *claimer) observe(ctx context.Context, conn *pgxpool.Conn, t *tick) error {
	if !c.registrar.registry {
		if err := c.registrar.register(ctx, conn); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	c.registrar.beat(batch, len(t.holding))
	known := make([]string, 0, len(t.known))
	for owner := range t.known {
		known = append(known, owner)
	}
	batch.Queue(queryRelays, known).Query(func(rows pgx.Rows) error {
		var owner string
		var knows []string
		_, err := pgx.ForEachRow(rows, []any{&owner, &knows}, func() error {
			set := map[Key]bool{}
			for i := 0; i+1 < len(knows); i += 2 {
				set[Key{knows[i], knows[i+1]}] = true
			}
			t.members[owner] = set
			return nil
		})
		return err
	})
	batch.Queue(queryInstance).QueryRow(func(row pgx.Row) error { return row.Scan(&t.instance) })
	batch.Queue(queryPairs, c.cfg.LeaseTTL).Query(func(rows pgx.Rows) error {
		var row pairRow
		_, err := pgx.ForEachRow(rows, []any{&row.Topic, &row.Publisher, &row.position, &row.active, &row.owner, &row.generation, &row.leased, &row.last}, func() error {
			t.rows = append(t.rows, row)
			return nil
		})
		return err
	})
	topics, publishers := columns(t.mine)
	batch.Queue(queryDue, topics, publishers, dueEach).Query(func(rows pgx.Rows) error {
		var row parkedRow
		_, err := pgx.ForEachRow(rows, []any{&row.Topic, &row.Publisher, &row.campaign, &row.seq, &row.holds, &row.position, &row.status, &row.attempts}, func() error {
			t.due = append(t.due, row)
			return nil
		})
		return err
	})
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	return c.claim(ctx, conn, t)
}

// claim leases the pairs that are ours and free.
func (c *claimer) claim(ctx context.Context, conn *pgxpool.Conn, t *tick) error {
	var free []Key
	assigned := c.assigned(t)
	for _, row := range t.rows {
		switch {
		case c.routes[row.Key] == nil || !row.active || row.leased || t.holding[row.Key]: // in a restored database, our own late writes would fit a new lease of what we hold
		case row.position > row.last:
			if err := c.refuseAhead(ctx, conn, row); err != nil {
				return err
			}
		case assigned[row.Key] == c.owner:
			free = append(free, row.Key)
		}
	}
	if len(free) == 0 {
		return nil
	}
	topics, publishers := columns(free)
	rows, err := conn.Query(ctx, queryClaim, c.owner, topics, publishers, c.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("claim pairs: %w", err)
	}
	var row claimedRow
	if _, err = pgx.ForEachRow(rows, []any{&row.Topic, &row.Publisher, &row.generation, &row.position, &row.errors, &row.wait}, func() error {
		t.claimed = append(t.claimed, row)
		return nil
	}); err != nil {
		return fmt.Errorf("claim pairs: %w", err)
	}
	t.holds = map[Key][]string{}
	rows, err = conn.Query(ctx, queryHeld, topics, publishers)
	if err != nil {
		return fmt.Errorf("read parked campaigns: %w", err)
	}
	var key Key
	var campaign string
	_, err = pgx.ForEachRow(rows, []any{&key.Topic, &key.Publisher, &campaign}, func() error {
		t.holds[key] = append(t.holds[key], campaign)
		return nil
	})
	return err
}

// assigned answers which relay is to have which pair.
func (c *claimer) assigned(t *tick) map[Key]string {
	relays, seats := map[string]map[Key]bool{}, make([]seat, 0, len(t.rows))
	for owner, knows := range t.members {
		if t.known[owner] {
			knows = c.members[owner] // not written while a tick is under way
		}
		relays[owner] = knows
	}
	for _, row := range t.rows {
		if row.active {
			s := seat{Key: row.Key}
			if row.leased {
				s.holder = row.owner
			}
			seats = append(seats, s)
		}
	}
	return assign(relays, seats)
}

// refuseAhead stops a pair whose position is one that the journal has never handed out: the journal was restored from a backup older than the position. To
// go on would be to leave out, silently, all that is appended until the journal gets there again.
func (c *claimer) refuseAhead(ctx context.Context, conn *pgxpool.Conn, row pairRow) error {
	reason := fmt.Sprintf("position %d is ahead of the journal, which ends at %d: the database was restored from an older backup, or the position was set by hand. Reset the pair to a position up to %d",
		row.position, row.last, row.last)
	tag, err := conn.Exec(ctx, queryAhead, row.Topic, row.Publisher, reason)
	if err != nil {
		return err
	}
	if tag.RowsAffected() > 0 {
		c.cfg.Logger.ErrorContext(ctx, "publishing stops", "topic", row.Topic, "publisher", row.Publisher, "status", "FAILED", "error", reason)
	}
	return nil
}

// restored tells whether a backup has taken the journal's place, or may have: the database is another, it ends before a position that it had reached before, or the row of a pair is older
// than it was, be it that somebody has put back its position alone. What was read of it then is not what stands at the same positions now.
func (c *claimer) restored(t *tick) bool {
	why := ""
	if c.instance != "" && c.instance != t.instance {
		why = "it is another database, or its server was started anew"
	}
	c.instance = t.instance
	for _, row := range t.rows {
		switch known := c.generations[row.Key]; {
		case row.last < t.head:
			why = fmt.Sprintf("the journal ends at %d, and was read up to %d", row.last, t.head)
		case row.generation < known:
			why = fmt.Sprintf("%s has generation %d, and had %d", row.Key, row.generation, known)
		case row.generation == known && row.position < t.saved[row.Key]: // no write of a relay takes a position back
			why = fmt.Sprintf("%s is at position %d, and was at %d", row.Key, row.position, t.saved[row.Key])
		}
		c.generations[row.Key] = row.generation
	}
	if why == "" {
		return false
	}
	c.cfg.Logger.WarnContext(c.ctx, "the database may have been restored from a backup: what was read of it is forgotten", "reason", why)
	c.journals++
	c.history.doubtful = true
	c.reader.forget()
	return true
}

// nudge has the next look be at once.
func (c *claimer) nudge() { c.nextTick, c.nudged = time.Time{}, true }

// ticked takes what was seen.
func (c *claimer) ticked(t *tick, err error) {
	c.ticking = false
	now := time.Now()
	if c.nextTick = now.Add(c.tickEvery); c.nudged {
		c.nextTick = now
	}
	if err != nil {
		c.unwritten(err, "that this process publishes")
		// Pairs that were claimed before it failed are not known here: their leases expire.
		return
	}
	c.registrar.registry = true
	for owner, knows := range t.members {
		if t.known[owner] {
			t.members[owner] = c.members[owner]
		} else {
			t.members[owner] = knows
		}
	}
	assigned := c.assigned(t)
	c.members = t.members
	if c.stopping {
		c.giveBack(t)
		return
	}
	restored := c.restored(t)
	var back []written // to be claimed again
	for _, row := range t.rows {
		p := c.pairs[row.Key]
		if p == nil && restored && row.leased && row.owner == c.owner && c.routes[row.Key] != nil { // dropped when a write of it changed nothing
			back = append(back, written{pair: &pair{route: c.routes[row.Key], tenure: tenure{generation: row.generation}}, to: row.position, release: true})
		}
		if p == nil || !p.claimed.Before(t.started) {
			continue
		}
		switch to := assigned[row.Key]; {
		case row.owner != c.owner || row.generation != p.generation:
			c.metrics.lost.Inc()
			c.drop(p)
		case !row.active || row.position > row.last || restored && p.read > row.last: // which it writes down as it leaves
			c.leave(p)
		case restored: // how far it got was of the journal before: the row says where it stands
			c.drop(p)
			back = append(back, written{pair: p, to: row.position, release: true})
		case to != "" && to != c.owner:
			c.leave(p)
		}
	}
	c.saver.release(back)
	c.history.findGhosts()
	for _, row := range t.claimed {
		c.hold(row, t, now)
	}
	c.drainer.take(t.due, t.started)
	c.metrics.held.Set(float64(len(c.pairs)))
}

// hold begins to publish a pair that was claimed.
func (c *claimer) hold(row claimedRow, t *tick, now time.Time) {
	if old := c.pairs[row.Key]; old != nil {
		c.drop(old)
	}
	p := &pair{
		route:     c.routes[row.Key],
		tenure:    tenure{generation: row.generation, instance: t.instance, claimed: now, trusted: t.started.Add(c.cfg.LeaseTTL)},
		place:     place{read: row.position, acked: row.position, saved: row.position},
		holds:     holds{held: map[string]int64{}, draining: map[string]bool{}, drained: map[string]time.Time{}},
		condition: condition{failures: row.errors},
	}
	if row.wait > 0 {
		p.notBefore = now.Add(min(row.wait, retryAfterMax))
	}
	for _, campaign := range t.holds[row.Key] {
		p.held[campaign] = row.position
	}
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.drains, p.stopDrains = context.WithCancel(p.ctx)
	c.pairs[row.Key] = p
	c.generations[row.Key] = row.generation
	c.look(p)
}

// giveBack releases what was claimed while the relay was told to stop.
func (c *claimer) giveBack(t *tick) {
	for _, row := range t.claimed {
		c.hold(row, t, time.Now())
		c.leave(c.pairs[row.Key])
	}
}
