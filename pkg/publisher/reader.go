package publisher

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/pages"
)

// reader reads the journal for the pairs that wait, and caches the latest pages.
type reader struct {
	*agenda
	listener  *listener
	cache     pages.Cache
	patience  *pages.Patience
	reads     []*reading
	head      int64     // the end of the journal when it was last read to its end
	hungry    bool      // a pair may wait for a read that could be started
	small     bool      // the last events were so small that a page's bytes need no limit
	wakes     int       // notifications so far
	announced time.Time // when appends were last asked to notify
	lastTail  time.Time // when the journal's end was last read
	tags      []string  // that topics filter by
	inFlight  int       // consecutive reads that found only appends in flight
}

func newReader(a *agenda, l *listener) *reader {
	r := &reader{agenda: a, listener: l, patience: pages.NewPatience(max(a.cfg.LeaseTTL, readTimeout))}
	for i := range a.cfg.Topics {
		r.tags = append(r.tags, a.cfg.Topics[i].tags()...)
	}
	r.forget()
	return r
}

// forget drops everything read: the journal has been replaced.
func (r *reader) forget() {
	r.cache, r.head = pages.NewCache(r.cfg.CacheBytes, r.cfg.PageEvents), 0
}

type reading struct {
	pages.Query
	limit   time.Duration
	journal int // the value of agenda.journals when it started
	mark    int64
	soon    bool // appends were asked to notify a moment ago: look again soon instead
	wakes   int  // notifications before it started
}

const (
	maxReads      = 2                    // at once, beside those that are repeated with more time
	announceEvery = 4 * time.Millisecond // least time between requests to notify
	aheadMost     = 3                    // pages to read ahead of a pair's own, while there is room
	tailPair      = 100 * time.Microsecond
	tailMost      = 20 * time.Millisecond

	// readTimeout is the minimum time limit of a first read, even with short leases, which are renewed
	// meanwhile. A read that finds an unreadable event prints a gigabyte twice.
	readTimeout = 30 * time.Second
)

// startReads starts reads for the waiting pairs, longest wait first. One read serves all near pairs.
func (r *reader) startReads(now time.Time) {
	if !r.hungry || r.stopping || r.reading() >= maxReads {
		return
	}
	r.hungry = false
	waiting := r.waiting(now)
	for _, p := range waiting {
		if r.reading() >= maxReads {
			r.hungry = true // once one of them is done
			return
		}
		if r.underWay(p.read) {
			continue
		}
		// Pairs shortly before it share the read.
		after := p.read
		for _, q := range waiting {
			if q.read < after && p.read-q.read <= int64(r.cfg.PageEvents)/2 && !r.underWay(q.read) {
				after = q.read
			}
		}
		r.read(after, now)
	}
}

// waiting returns the pairs that wait for a read, longest wait first. Those at the journal's end wait until it may be
// read again.
func (r *reader) waiting(now time.Time) (waiting []*pair) {
	var tail []*pair
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
	slices.SortFunc(waiting, func(a, b *pair) int { return a.since.Compare(b.since) })
	return waiting
}

// underWay reports whether a read may bring the events after a position.
func (r *reader) underWay(after int64) bool {
	return slices.ContainsFunc(r.reads, func(rd *reading) bool {
		return rd.After <= after && after-rd.After < int64(rd.Events)
	})
}

// reading returns how many reads are under way that others wait for.
func (r *reader) reading() (n int) {
	for _, rd := range r.reads {
		if rd.Limit == 0 {
			n++
		}
	}
	return n
}

// tailPause is the time between reads of the journal's end: each that finds events wakes all pairs there.
func tailPause(pairs int) time.Duration {
	return min(time.Duration(max(pairs-1, 0))*tailPair, tailMost)
}

// prefetch reads pages ahead of a pair's own while the pair sends. It reads each page once;
// otherwise slow pairs would evict each other's pages when memory is short.
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
	if at >= r.head || at < p.ahead || r.reading() >= maxReads || r.stopping || r.cache.At(at) != nil ||
		r.underWay(at) {
		return
	}
	p.ahead = at + 1
	r.read(at, now)
}

func (r *reader) read(after int64, now time.Time) {
	events, limit := r.patience.Next(after, r.cfg.PageEvents)
	rd := &reading{
		Query: pages.Query{
			After: after, Floor: r.head, Instance: r.instance, Events: events, Small: r.small,
			Catalogue: r.cfg.Catalogue, Archive: r.cfg.Archive,
			Sealed: !slices.ContainsFunc(r.cfg.Publishers, func(p Publisher) bool {
				return p.OpenSealed
			}),
		},
		limit: limit, journal: r.journals, mark: r.cache.Mark(), wakes: r.wakes,
	}
	if r.patience.Repeats(limit) {
		rd.Limit = limit
	}
	if after >= r.head {
		r.lastTail = now
		if r.listener.hears() {
			if rd.soon = now.Sub(r.announced) < announceEvery; !rd.soon {
				rd.Announce, r.announced = 2*r.longestPoll()+time.Second, now
			}
		}
	}
	r.reads = append(r.reads, rd)
	var w *pages.Window
	r.timed(limit, func(ctx context.Context) (err error) {
		w, err = r.readWindow(ctx, rd)
		return err
	}, func(err error) { r.arrived(rd, w, err, now) })
}

// longestPoll returns the longest time until a pair polls again.
func (r *reader) longestPoll() (longest time.Duration) {
	for _, p := range r.pairs {
		longest = max(longest, min(r.cfg.PollInterval<<min(max(p.empty+1-r.cfg.IdleAfter, 0), 20),
			r.cfg.IdleMax)+r.cfg.PollInterval)
	}
	return longest
}

func (r *reader) readWindow(ctx context.Context, rd *reading) (w *pages.Window, err error) {
	err = r.db.Use(ctx, func(conn *pgxpool.Conn) error {
		if w, err = pages.Read(ctx, conn, rd.Query); err == nil && w.Instance != rd.Instance {
			err = feed.ErrReplaced // the next tick sees it
		}
		if err == nil {
			w.Notices, err = pages.ReadNotices(ctx, conn, r.cfg.Catalogue, w.Events, r.tags)
		}
		return err
	})
	return w, err
}

// arrived hands a page to the pairs that wait for it.
func (r *reader) arrived(rd *reading, w *pages.Window, err error, started time.Time) {
	r.reads = slices.DeleteFunc(r.reads, func(other *reading) bool { return other == rd })
	r.hungry = true
	now := time.Now()
	if err != nil {
		r.failed(rd, err, now)
		return
	}
	r.patience.Done(rd.After, nil)
	if rd.journal != r.journals || rd.mark != r.cache.Mark() {
		return // the journal was replaced, or events have been erased
	}
	nothing := w.Until == w.After
	if nothing && w.Floor < w.Last {
		r.inFlight++
	} else {
		r.inFlight = 0
	}
	r.head = max(r.head, w.Floor)
	if n := len(w.Events); n > 0 {
		r.small = 4*w.Payload()*int64(r.cfg.PageEvents) <= pages.Bytes*int64(n)
	}
	r.cache.Add(&w.Page)
	for _, p := range r.pairs {
		switch {
		case p.busy && !nothing && w.After >= p.read:
			r.prefetch(p, now)
		case p.wanting && !p.busy && !p.leaving && w.After <= p.read && p.read <= w.Until:
			r.tell(p, rd, nothing, started, now)
		}
	}
}

// tell has a pair look at the page that it has waited for.
func (r *reader) tell(p *pair, rd *reading, nothing bool, started, now time.Time) {
	switch {
	case nothing && rd.wakes != r.wakes: // the notified event may have come after the read
	case nothing && rd.soon:
		p.nextPoll = later(p.nextPoll, now.Add(announceEvery))
	default:
		p.polled = !started.Add(r.cfg.PollInterval / 2).Before(p.nextPoll) // one look serves all pairs that would look soon
	}
	r.look(p)
}

// failed has the pairs that wait for a read wait for another one.
func (r *reader) failed(rd *reading, err error, now time.Time) {
	r.small = false // it may have been too much for the time limit
	if r.ctx.Err() != nil {
		return
	}
	const wait = 200 * time.Millisecond
	if r.patience.Done(rd.After, err) {
		r.cfg.Logger.WarnContext(r.ctx, "a read of the journal took too long, the next is of one event, with more time",
			"after", rd.After, "events", rd.Events, "timeout", rd.limit, "error", err, "wait", wait)
	} else {
		r.cfg.Logger.WarnContext(r.ctx, "cannot read the journal", "after", rd.After, "error", err, "wait", wait)
	}
	for _, p := range r.pairs {
		if p.wanting {
			p.notBefore = later(p.notBefore, now.Add(wait))
			p.wanting = false
			r.look(p)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// awake makes waiting pairs look at the journal at once.
func (r *reader) awake() {
	r.wakes++
	r.hungry = true
	for _, p := range r.pairs {
		if p.wanting {
			p.nextPoll, p.empty = time.Time{}, 0
		}
	}
}

// pollDelay returns how long a pair that found nothing waits before it looks again.
func (r *reader) pollDelay(p *pair) time.Duration {
	interval := r.cfg.PollInterval
	if r.inFlight > 0 { // appends in flight commit soon, and their sessions may not know that a relay waits
		return min(5*time.Millisecond<<min(r.inFlight, 10), interval)
	}
	d := min(interval<<min(max(p.empty-r.cfg.IdleAfter, 0), 20), max(r.cfg.IdleMax, interval))
	return d + time.Duration(rand.Int64N(int64(interval/2)+1))
}
