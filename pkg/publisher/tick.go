package publisher

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
func (r *Relay) tick(now time.Time) {
	r.ticking, r.nudged = true, false
	t := &tick{started: now, holding: map[Key]bool{}, head: r.reader.head, saved: map[Key]int64{}, known: map[string]bool{}, members: map[string]map[Key]bool{}}
	for owner := range r.members {
		t.known[owner] = true
	}
	for key, p := range r.pairs {
		t.holding[key], t.saved[key] = true, p.saved
		if !p.leaving && !now.Before(p.notBefore) {
			t.mine = append(t.mine, key)
		}
	}
	ctx := r.ctx
	r.job(func() func() {
		ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL/2)
		defer cancel()
		err := r.db.use(ctx, func(conn *pgxpool.Conn) error { return r.observe(ctx, conn, t) })
		return func() { r.ticked(t, err) }
	})
}

// observe reads all, then claims what is ours and free.
func (r *Relay) observe(ctx context.Context, conn *pgxpool.Conn, t *tick) error {
	if !r.registrar.registry {
		if err := r.registrar.register(ctx, conn); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(queryBeat, r.owner, r.registrar.host, os.Getpid(), r.registrar.knows, 4*r.tickEvery, len(t.holding))
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
	batch.Queue(queryPairs, r.cfg.LeaseTTL).Query(func(rows pgx.Rows) error {
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
	return r.claim(ctx, conn, t)
}

// claim leases the pairs that are ours and free.
func (r *Relay) claim(ctx context.Context, conn *pgxpool.Conn, t *tick) error {
	var free []Key
	assigned := r.assigned(t)
	for _, row := range t.rows {
		switch {
		case r.routes[row.Key] == nil || !row.active || row.leased || t.holding[row.Key]: // in a restored database, our own late writes would fit a new lease of what we hold
		case row.position > row.last:
			if err := r.refuseAhead(ctx, conn, row); err != nil {
				return err
			}
		case assigned[row.Key] == r.owner:
			free = append(free, row.Key)
		}
	}
	if len(free) == 0 {
		return nil
	}
	topics, publishers := columns(free)
	rows, err := conn.Query(ctx, queryClaim, r.owner, topics, publishers, r.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("claim pairs: %w", err)
	}
	var c claimedRow
	if _, err = pgx.ForEachRow(rows, []any{&c.Topic, &c.Publisher, &c.generation, &c.position, &c.errors, &c.wait}, func() error {
		t.claimed = append(t.claimed, c)
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
func (r *Relay) assigned(t *tick) map[Key]string {
	relays, seats := map[string]map[Key]bool{}, make([]seat, 0, len(t.rows))
	for owner, knows := range t.members {
		if t.known[owner] {
			knows = r.members[owner] // not written while a tick is under way
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
func (r *Relay) refuseAhead(ctx context.Context, conn *pgxpool.Conn, row pairRow) error {
	reason := fmt.Sprintf("position %d is ahead of the journal, which ends at %d: the database was restored from an older backup, or the position was set by hand. Reset the pair to a position up to %d",
		row.position, row.last, row.last)
	tag, err := conn.Exec(ctx, queryAhead, row.Topic, row.Publisher, reason)
	if err != nil {
		return err
	}
	if tag.RowsAffected() > 0 {
		r.cfg.Logger.ErrorContext(ctx, "publishing stops", "topic", row.Topic, "publisher", row.Publisher, "status", "FAILED", "error", reason)
	}
	return nil
}

// restored tells whether a backup has taken the journal's place, or may have: the database is another, it ends before a position that it had reached before, or the row of a pair is older
// than it was, be it that somebody has put back its position alone. What was read of it then is not what stands at the same positions now.
func (r *Relay) restored(t *tick) bool {
	why := ""
	if r.instance != "" && r.instance != t.instance {
		why = "it is another database, or its server was started anew"
	}
	r.instance = t.instance
	for _, row := range t.rows {
		switch known := r.generations[row.Key]; {
		case row.last < t.head:
			why = fmt.Sprintf("the journal ends at %d, and was read up to %d", row.last, t.head)
		case row.generation < known:
			why = fmt.Sprintf("%s has generation %d, and had %d", row.Key, row.generation, known)
		case row.generation == known && row.position < t.saved[row.Key]: // no write of a relay takes a position back
			why = fmt.Sprintf("%s is at position %d, and was at %d", row.Key, row.position, t.saved[row.Key])
		}
		r.generations[row.Key] = row.generation
	}
	if why == "" {
		return false
	}
	r.cfg.Logger.WarnContext(r.ctx, "the database may have been restored from a backup: what was read of it is forgotten", "reason", why)
	r.journals++
	r.history.doubtful = true
	r.reader.cache = pages{limit: r.cfg.CacheBytes, full: r.cfg.PageEvents}
	r.reader.head = 0
	return true
}

// ticked takes what was seen.
func (r *Relay) ticked(t *tick, err error) {
	r.ticking = false
	now := time.Now()
	if r.nextTick = now.Add(r.tickEvery); r.nudged {
		r.nextTick = now
	}
	if err != nil {
		r.unwritten(err, "that this process publishes")
		// Pairs that were claimed before it failed are not known here: their leases expire.
		return
	}
	r.registrar.registry = true
	for owner, knows := range t.members {
		if t.known[owner] {
			t.members[owner] = r.members[owner]
		} else {
			t.members[owner] = knows
		}
	}
	assigned := r.assigned(t)
	r.members = t.members
	if r.stopping {
		r.giveBack(t)
		return
	}
	restored := r.restored(t)
	var back []written // to be claimed again
	for _, row := range t.rows {
		p := r.pairs[row.Key]
		if p == nil && restored && row.leased && row.owner == r.owner && r.routes[row.Key] != nil { // dropped when a write of it changed nothing
			back = append(back, written{pair: &pair{route: r.routes[row.Key], generation: row.generation}, to: row.position, release: true})
		}
		if p == nil || !p.claimed.Before(t.started) {
			continue
		}
		switch to := assigned[row.Key]; {
		case row.owner != r.owner || row.generation != p.generation:
			r.metrics.lost.Inc()
			r.drop(p)
		case !row.active || row.position > row.last || restored && p.read > row.last: // which it writes down as it leaves
			r.leave(p)
		case restored: // how far it got was of the journal before: the row says where it stands
			r.drop(p)
			back = append(back, written{pair: p, to: row.position, release: true})
		case to != "" && to != r.owner:
			r.leave(p)
		}
	}
	r.saver.release(back)
	r.history.findGhosts()
	for _, c := range t.claimed {
		r.hold(c, t, now)
	}
	r.moreDue = false
	each := map[Key]int{}
	for _, row := range t.due {
		each[row.Key]++
		r.moreDue = r.moreDue || each[row.Key] >= dueEach || r.drains >= maxDrains
		r.bringBack(row, t.started)
	}
	for _, p := range r.pairs {
		maps.DeleteFunc(p.drained, func(_ string, at time.Time) bool { return at.Before(t.started) }) // the next look is newer
	}
	r.metrics.held.Set(float64(len(r.pairs)))
}

// hold begins to publish a pair that was claimed.
func (r *Relay) hold(c claimedRow, t *tick, now time.Time) {
	if old := r.pairs[c.Key]; old != nil {
		r.drop(old)
	}
	p := &pair{
		route: r.routes[c.Key], generation: c.generation, instance: t.instance, claimed: now, trusted: t.started.Add(r.cfg.LeaseTTL),
		read: c.position, acked: c.position, saved: c.position, held: map[string]int64{}, draining: map[string]bool{}, drained: map[string]time.Time{},
		failures: c.errors,
	}
	if c.wait > 0 {
		p.notBefore = now.Add(min(c.wait, retryAfterMax))
	}
	for _, campaign := range t.holds[c.Key] {
		p.held[campaign] = c.position
	}
	p.ctx, p.cancel = context.WithCancel(r.ctx)
	p.drains, p.stopDrains = context.WithCancel(p.ctx)
	r.pairs[c.Key] = p
	r.generations[c.Key] = c.generation
	r.look(p)
}

// release gives pairs back that have been dropped.
func (s *saver) release(back []written) {
	if len(back) == 0 {
		return
	}
	ctx, instance := s.ctx, s.instance
	s.job(func() func() {
		_, err := s.write(ctx, instance, back)
		return func() { s.unwritten(err, "that pairs are given back") }
	})
}

// giveBack releases what was claimed while the relay was told to stop.
func (r *Relay) giveBack(t *tick) {
	for _, c := range t.claimed {
		r.hold(c, t, time.Now())
		r.leave(r.pairs[c.Key])
	}
}
