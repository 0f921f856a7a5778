package publisher

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// base is shared by all parts of a relay: configuration, database, and jobs.
type base struct {
	cfg       Config
	db        *ledger.Ledger
	routes    map[publications.Key]*route
	metrics   *metrics
	owner     string
	tickEvery time.Duration

	ctx     context.Context // of jobs; it outlives Run's for the shutdown
	inbox   chan func()     // results of jobs
	gone    chan struct{}   // closed when the loop has ended
	working int             // jobs that have not posted yet
}

// drainInbox handles everything else that was posted, so one pass of the loop covers many results.
func (b *base) drainInbox() {
	for {
		select {
		case f := <-b.inbox:
			f()
		default:
			return
		}
	}
}

// job runs work in a goroutine. The loop runs the function that work returns.
func (b *base) job(work func() (then func())) {
	b.working++
	go func() {
		then := work()
		select {
		case b.inbox <- func() {
			b.working--
			then()
		}:
		case <-b.gone:
		}
	}()
}

// timed is a job with a time limit. The loop calls then with work's error.
func (b *base) timed(limit time.Duration, work func(ctx context.Context) error, then func(error)) {
	parent := b.ctx
	b.job(func() func() {
		ctx, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		err := work(ctx)
		return func() { then(err) }
	})
}

// fenced runs write in a transaction that locks the pair's row if the lease is still ours.
func (b *base) fenced(ctx context.Context, p *pair, write func(tx pgx.Tx) error) error {
	return b.db.Fenced(ctx, p.Key, p.generation, p.instance, write)
}

func (b *base) unwritten(err error, what string) {
	if err != nil && b.ctx.Err() == nil {
		b.cfg.Logger.WarnContext(b.ctx, "cannot write "+what, "error", err)
	}
}

// agenda is the pairs that this process holds, and what the loop looks at next.
type agenda struct {
	*base
	pairs    map[publications.Key]*pair
	ready    []*pair // for the loop to look at
	due      time.Time
	nextTick time.Time
	stopping bool
	hurry    bool   // a pair is waiting to be released
	instance string // of the database, as last seen
	journals int    // how often the journal may have been replaced
}

func (a *agenda) look(p *pair) { a.ready = append(a.ready, p) }

// at schedules the loop's next pass for t at the latest.
func (a *agenda) at(t time.Time) {
	if t.Before(a.due) {
		a.due = t
	}
}

// tickAt schedules the next tick for t at the latest.
func (a *agenda) tickAt(t time.Time) {
	if t = t.Add(time.Millisecond); t.Before(a.nextTick) {
		a.nextTick = t
	}
}

// leave releases a pair once it is not busy.
func (a *agenda) leave(p *pair) {
	p.leaving, a.hurry = true, true
	p.stopDrains()
}

// drop forgets a pair that this process no longer holds.
func (a *agenda) drop(p *pair) {
	p.cancel()
	if a.pairs[p.Key] == p {
		delete(a.pairs, p.Key)
		a.metrics.Held.Set(float64(len(a.pairs)))
	}
}
