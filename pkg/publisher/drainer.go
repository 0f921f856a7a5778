package publisher

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// drainer lets parked campaigns catch up.
type drainer struct {
	*agenda
	saver   *saver
	history *history
	drains  int
	moreDue bool // more than the last tick started
}

// returning is a campaign that catches up, from a seq to where the pair's rounds skipped it.
type returning struct {
	row   ledger.Parked
	from  int64 // the next seq
	last  int64 // position of the previous event
	until int64

	done      bool  // nothing is left up to until
	event     Event // the event that failed; its Seq is 0 if the sink is not the cause
	err       error
	refused   bool // the sink named it
	permanent bool
	blamed    bool // the event is certainly at fault
	down      bool // the sink reports that the other side is down
	sent      int
	took      recent // what the sink accepted
	ctx       context.Context
}

// maxDrains limits the campaigns that catch up at once.
const maxDrains = 8

// take starts the campaigns that were due when a tick started.
func (d *drainer) take(due []ledger.Parked, started time.Time) {
	d.moreDue = false
	each := map[publications.Key]int{}
	for _, row := range due {
		each[row.Key]++
		d.moreDue = d.moreDue || each[row.Key] >= dueEach || d.drains >= maxDrains
		d.bringBack(row, started)
	}
	for _, p := range d.pairs {
		maps.DeleteFunc(p.drained, func(_ string, at time.Time) bool { return at.Before(started) }) // the next tick is newer
	}
}

// bringBack starts a campaign's catch-up. seen is when the row was read.
func (d *drainer) bringBack(row ledger.Parked, seen time.Time) {
	p := d.pairs[row.Key]
	if p == nil || p.leaving || d.drains >= maxDrains || p.draining[row.Campaign] ||
		!p.drained[row.Campaign].Before(seen) || time.Now().Before(p.notBefore) {
		return
	}
	delete(p.drained, row.Campaign)
	if row.Holds {
		if _, held := p.held[row.Campaign]; !held {
			if slices.ContainsFunc(p.pending, func(e Event) bool { return e.CampaignID == row.Campaign }) {
				return // is being sent: at the next tick
			}
			p.held[row.Campaign] = p.read // an operator put it there
		}
	}
	p.draining[row.Campaign] = true
	d.drains++
	d.drain(p, &returning{row: row, from: row.Seq, last: row.Position})
}

// drain publishes what is left of the campaign as of now.
func (d *drainer) drain(p *pair, c *returning) {
	c.until, c.ctx = p.read, p.drains
	ctx, trusted := p.drains, p.trusted
	s := &sender{to: &p.to, trusted: func() bool { return time.Now().Before(trusted) }, tracer: p.tracer}
	d.job(func() func() {
		d.publishRest(ctx, p, s, c)
		return func() { d.returned(p, c) }
	})
}

// publishRest reads, sends and records batch after batch, until nothing is left or an error stops it.
func (d *drainer) publishRest(ctx context.Context, p *pair, s *sender, c *returning) {
	for {
		limit := p.to.BatchSize
		if !c.row.Holds {
			limit = 1
		}
		of := part{p.Topic, p.filter, d.cfg.Catalogue, c.row.Campaign, c.from, c.until, limit}
		var page pages.Page
		err := d.db.Use(ctx, func(conn *pgxpool.Conn) (err error) {
			page, err = p.to.read(ctx, conn, of)
			return err
		})
		if err != nil {
			c.err = err
			return
		}
		events, batch := page.Events, of.batch(page)
		if len(batch) > 0 && !d.sendRest(ctx, s, c, batch) {
			return
		}
		if len(events) < limit || !c.row.Holds {
			c.done = true
			return
		}
		c.from, c.last = events[len(events)-1].Seq+1, events[len(events)-1].Position
		if err := d.fenced(ctx, p, func(tx pgx.Tx) error { return c.advance(ctx, tx) }); err != nil {
			c.err = err
			return
		}
	}
}

func (d *drainer) sendRest(ctx context.Context, s *sender, c *returning, batch []Event) bool {
	sent := make([]bool, len(batch))
	refused, broken := s.batch(ctx, batch, sent)
	for i := range batch {
		if !sent[i] {
			break
		}
		c.from, c.last = batch[i].Seq+1, batch[i].Position
		c.sent++
		c.took.add(sentOf(&batch[i]), rememberEach)
	}
	if broken == nil && len(refused) == 0 && !sent[len(sent)-1] {
		broken = errors.New("the sink has published nothing and named no event at fault")
	}
	next := slices.Index(sent, false)
	if next < 0 {
		return true
	}
	c.event, c.err = batch[next], broken
	if len(refused) > 0 && refused[0].index == next {
		c.err, c.refused, c.permanent = refused[0].err, true, refused[0].permanent
	}
	switch {
	case c.ctx.Err() != nil || errors.Is(c.err, errUntrusted):
		c.event = Event{}
	case isPause(c.err):
	case !c.refused && blamesNobody(c.err):
		c.down = true
	case c.permanent || c.refused && c.sent > 0 || errors.Is(c.err, catalogue.ErrWrappingKey):
		c.blamed = true
	default:
		h := s.healthy(ctx)
		c.blamed, c.down = h == healthy, h == unhealthy
	}
	return false
}

func (c *returning) advance(ctx context.Context, tx pgx.Tx) error {
	return c.row.Advance(ctx, tx, c.from, c.last)
}

func (d *drainer) returned(p *pair, c *returning) {
	now := time.Now()
	d.history.remember(p, slices.Values(c.took))
	if d.pairs[p.Key] != p {
		d.drains--
		return
	}
	if c.sent > 0 {
		p.published += int64(c.sent)
		p.lastSuccess = now
		d.metrics.Published.WithLabelValues(p.Topic, p.Publisher).Add(float64(c.sent))
	}
	// The sink is up: something got through lately, of any campaign, it has not failed as a whole
	// since, and it does not report that it is down.
	alive := !c.down && p.failures == 0 && now.Sub(p.lastSuccess) < aliveFor
	switch {
	case c.done && c.row.Holds && p.held[c.row.Campaign] > c.until:
		d.drain(p, &returning{row: c.row, from: c.from, last: c.last}) // more was skipped meanwhile
	case c.done:
		if c.row.Holds {
			delete(p.held, c.row.Campaign) // from the next round on
		}
		d.conclude(p, c, c.row.Remove)
	case c.event.Seq > 0 && (c.blamed || alive && !isPause(c.err)):
		d.refuseAgain(p, c)
	case c.event.Seq > 0:
		d.ended(p, c)
		d.saver.fail(p, c.err, now)
	default: // the database, an operator, or the lease: at a later tick
		d.ended(p, c)
		d.tickAt(now.Add(d.tickEvery))
	}
}

// aliveFor is how long a sink counts as up after something got through.
const aliveFor = 10 * time.Second

// refuseAgain counts an attempt at the campaign's next event.
func (d *drainer) refuseAgain(p *pair, c *returning) {
	d.metrics.Refused.WithLabelValues(p.Topic, p.Publisher).Inc()
	attempts := 1
	if c.event.Seq == c.row.Seq && c.row.Status == "retrying" {
		attempts = c.row.Attempts + 1
	}
	k := p.refused(&c.event, attempts, c.err, c.permanent)
	d.conclude(p, c, func(ctx context.Context, tx pgx.Tx) error {
		if c.from != c.row.Seq {
			if err := c.advance(ctx, tx); err != nil {
				return err
			}
		}
		if p.leavesOut(k) && c.row.Holds {
			if err := p.write(ctx, tx, k); err != nil {
				return err
			}
			c.from, c.last = c.event.Seq+1, c.event.Position
			return c.advance(ctx, tx)
		}
		return c.row.Postpone(ctx, tx, k)
	})
	d.tickAt(time.Now().Add(k.Delay))
}

// conclude writes the outcome for a campaign and ends its catch-up.
func (d *drainer) conclude(p *pair, c *returning, write func(ctx context.Context, tx pgx.Tx) error) {
	d.timed(d.cfg.LeaseTTL/2, func(ctx context.Context) error {
		return d.fenced(ctx, p, func(tx pgx.Tx) error { return write(ctx, tx) })
	}, func(err error) {
		if !errors.Is(err, ledger.ErrActed) && !errors.Is(err, ledger.ErrLost) {
			d.unwritten(err, "what became of a parked campaign")
		}
		d.ended(p, c)
		d.look(p)
	})
}

// ended allows ticks that start from now on to start the campaign again.
func (d *drainer) ended(p *pair, c *returning) {
	d.drains--
	delete(p.draining, c.row.Campaign)
	p.drained[c.row.Campaign] = time.Now()
	if d.moreDue && d.drains <= maxDrains/2 {
		d.tickAt(time.Now())
	}
}
