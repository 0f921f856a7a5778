package publisher

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher/internal/listener"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/pace"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/pages"
)

// reader reads the journal for the pairs that wait, and keeps what it read last.
type reader struct {
	*agenda
	listener  *listener.Listener
	cache     pages.Cache
	reads     []*reading
	head      int64     // where the journal ended when it was last read to its end
	hungry    bool      // a pair may wait for a read that could be started
	small     bool      // the events read last were so small that a page's bytes need not be watched
	wakes     int       // notifications so far
	announced time.Time // when appends were last asked to notify
	lastTail  time.Time // when the journal's end was last read
	inFlight  int       // reads in a row that found appends in flight and nothing else
}

func newReader(a *agenda, l *listener.Listener) *reader {
	r := &reader{agenda: a, listener: l}
	r.forget()
	return r
}

// forget forgets what was read: another journal has taken the place of this one.
func (r *reader) forget() {
	r.cache, r.head = pages.NewCache(r.cfg.CacheBytes, r.cfg.PageEvents), 0
}

// reading is a read of the journal under way.
type reading struct {
	pages.Query
	journal int  // of the relay's journals
	soon    bool // to be notified was asked for a moment ago: look again soon instead
	wakes   int  // notifications before it started
}

const (
	maxReads      = 2                    // at once
	announceEvery = 4 * time.Millisecond // bounds the rate of notifications
	aheadMost     = 3                    // pages in memory from the one that a pair is in, while there is room
	tailPair      = 100 * time.Microsecond
	tailMost      = 20 * time.Millisecond

	// readTimeout is how long a read may take, at least, however short leases are: they are renewed meanwhile. A read
	// that finds out which event cannot be read prints a gigabyte twice.
	readTimeout = 30 * time.Second
)

// startReads reads for the pairs that wait, those that have waited longest first. One read serves
// all whose positions are near.
func (r *reader) startReads(now time.Time) {
	if !r.hungry || r.stopping || len(r.reads) >= maxReads {
		return
	}
	r.hungry = false
	var waiting, tail []*pair
	ends := 0 // pairs at the end of the journal
	for _, p := range r.pairs {
		if p.read >= r.head {
			ends++
		}
		switch {
		case !p.wanting || p.busy || p.leaving:
		case p.read < r.head:
			waiting = append(waiting, p)
		case now.Before(p.nextPoll):
			r.at(p.nextPoll)
		default:
			tail = append(tail, p)
		}
	}
	if next := r.lastTail.Add(tailPause(ends)); len(tail) > 0 && now.Before(next) {
		r.at(next)
	} else {
		waiting = append(waiting, tail...)
	}
	if len(waiting) == 0 {
		return
	}
	slices.SortFunc(waiting, func(a, b *pair) int { return a.since.Compare(b.since) })
	for _, p := range waiting {
		if len(r.reads) >= maxReads {
			r.hungry = true // once one of them is done
			return
		}
		near := func(rd *reading) bool { return rd.After <= p.read && p.read-rd.After <= int64(r.cfg.PageEvents) }
		if slices.ContainsFunc(r.reads, near) {
			continue
		}
		// Those near it, but before it, are served by the same read.
		after := p.read
		for _, q := range waiting {
			if q.read < after && p.read-q.read <= int64(r.cfg.PageEvents)/2 {
				after = q.read
			}
		}
		r.read(after, now)
	}
}

// tailPause is the time between reads of the journal's end where so many pairs stand: each read
// that finds events wakes all of them.
func tailPause(pairs int) time.Duration {
	return min(time.Duration(max(pairs-1, 0))*tailPair, tailMost)
}

// prefetch reads pages behind the one that a pair is in, while the pair sends. Each is read once,
// or pairs that send for long would drop each other's pages where memory is short.
func (r *reader) prefetch(p *pair, now time.Time) {
	ahead := 1
	if r.cache.Roomy() {
		ahead = aheadMost
	}
	at := p.read
	for range ahead {
		in := r.cache.At(at)
		if in == nil {
			break
		}
		at = in.Until
	}
	if at >= r.head || at < p.ahead || len(r.reads) >= maxReads || r.stopping || r.cache.At(at) != nil ||
		slices.ContainsFunc(r.reads, func(rd *reading) bool {
			return rd.After <= at && at-rd.After <= int64(r.cfg.PageEvents)
		}) {
		return
	}
	p.ahead = at + 1
	r.read(at, now)
}

// read starts a reading.
func (r *reader) read(after int64, now time.Time) {
	rd := &reading{
		Query: pages.Query{
			After: after, Floor: r.head, Events: r.cfg.PageEvents, Small: r.small,
			Catalogue: r.cfg.Catalogue,
		},
		journal: r.journals, wakes: r.wakes,
	}
	if after >= r.head {
		r.lastTail = now
		if r.listener.Listening() {
			if rd.soon = now.Sub(r.announced) < announceEvery; !rd.soon {
				rd.Announce, r.announced = 2*r.longestPoll()+time.Second, now
			}
		}
	}
	r.reads = append(r.reads, rd)
	var w *pages.Window
	r.timed(max(r.cfg.LeaseTTL, readTimeout), func(ctx context.Context) (err error) {
		w, err = r.readWindow(ctx, rd)
		return err
	}, func(err error) { r.arrived(rd, w, err, now) })
}

// longestPoll is the longest that a pair will wait before it polls again.
func (r *reader) longestPoll() (longest time.Duration) {
	for _, p := range r.pairs {
		longest = max(longest, min(r.cfg.PollInterval<<min(max(p.empty+1-r.cfg.IdleAfter, 0), 20),
			r.cfg.IdleMax)+r.cfg.PollInterval)
	}
	return longest
}

// readWindow reads what there is below the writer floor.
func (r *reader) readWindow(ctx context.Context, rd *reading) (w *pages.Window, err error) {
	err = r.db.Use(ctx, func(conn *pgxpool.Conn) error {
		w, err = pages.Read(ctx, conn, rd.Query)
		return err
	})
	return w, err
}

// arrived gives what was read to the pairs that wait for it.
func (r *reader) arrived(rd *reading, w *pages.Window, err error, started time.Time) {
	r.reads = slices.DeleteFunc(r.reads, func(other *reading) bool { return other == rd })
	r.hungry = true
	now := time.Now()
	if err != nil {
		r.small = false // it may have been more than there was time for
		if r.ctx.Err() == nil {
			wait := pace.Backoff(2, time.Second, 0.5)
			r.cfg.Logger.WarnContext(r.ctx, "cannot read the journal", "after", rd.After, "error", err, "wait", wait)
			for _, p := range r.pairs {
				if p.wanting {
					p.notBefore = later(p.notBefore, now.Add(wait))
					p.wanting = false
					r.look(p)
				}
			}
		}
		return
	}
	if rd.journal != r.journals {
		return // another has taken its place
	}
	switch {
	case w.Until == w.After && w.Floor < w.Last:
		r.inFlight++
	default:
		r.inFlight = 0
	}
	r.head = max(r.head, w.Floor)
	if n := len(w.Events); n > 0 {
		r.small = 4*w.Payload()*int64(r.cfg.PageEvents) <= pages.Bytes*int64(n)
	}
	r.cache.Add(&w.Page)
	nothing := w.Until == w.After
	for _, p := range r.pairs {
		if p.busy && !nothing && w.After >= p.read {
			r.prefetch(p, now)
		}
		if !p.wanting || p.busy || p.leaving || p.read < w.After || p.read > w.Until {
			continue
		}
		switch {
		case nothing && rd.wakes != r.wakes: // what was notified may have come after it looked
		case nothing && rd.soon:
			p.nextPoll = later(p.nextPoll, now.Add(announceEvery))
		default:
			p.polled = !started.Add(r.cfg.PollInterval / 2).Before(p.nextPoll) // one look is for all that would look soon
		}
		r.look(p)
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// awake looks at the journal at once.
func (r *reader) awake() {
	r.wakes++
	r.hungry = true
	for _, p := range r.pairs {
		if p.wanting {
			p.nextPoll, p.empty = time.Time{}, 0
		}
	}
}

// pollDelay is how long a pair that has found nothing waits before it looks again.
func (r *reader) pollDelay(p *pair) time.Duration {
	interval := r.cfg.PollInterval
	if r.inFlight > 0 { // what is being appended comes soon, and its session may not know that a relay waits
		return min(5*time.Millisecond<<min(r.inFlight, 10), interval)
	}
	d := min(interval<<min(max(p.empty-r.cfg.IdleAfter, 0), 20), max(r.cfg.IdleMax, interval))
	return d + time.Duration(rand.Int64N(int64(interval/2)+1))
}
