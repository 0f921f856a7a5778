package publisher

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/ledger"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/metrics"
)

// base is what all parts of a relay share: its configuration, the database, and the way to do what takes time.
type base struct {
	cfg       Config
	db        *ledger.Ledger
	routes    map[publications.Key]*route
	metrics   *metrics.Metrics
	owner     string
	tickEvery time.Duration

	ctx     context.Context // of jobs: lives on for a while when Run's ends
	inbox   chan func()     // results of jobs
	gone    chan struct{}   // closed when the loop has ended
	working int             // jobs that have not posted yet
}

// drainInbox does what else has been posted, so that one look at what is due follows many results.
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

// job runs work in a goroutine. What it answers is done by the loop.
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

// timed is a job of at most limit. The loop does then with work's error.
func (b *base) timed(limit time.Duration, work func(ctx context.Context) error, then func(error)) {
	parent := b.ctx
	b.job(func() func() {
		ctx, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		err := work(ctx)
		return func() { then(err) }
	})
}

// fenced runs write in a transaction in which the pair is certainly ours.
func (b *base) fenced(ctx context.Context, p *pair, write func(tx pgx.Tx) error) error {
	return b.db.Fenced(ctx, p.Key, p.generation, p.instance, write)
}

func (b *base) unwritten(err error, what string) {
	if err != nil && b.ctx.Err() == nil {
		b.cfg.Logger.WarnContext(b.ctx, "cannot write "+what, "error", err)
	}
}

// agenda is the pairs that this process holds, and what the loop is to look at when.
type agenda struct {
	*base
	pairs    map[publications.Key]*pair
	ready    []*pair // to be looked at
	due      time.Time
	nextTick time.Time
	stopping bool
	hurry    bool   // a pair is to be given back
	instance string // of the database, as it was last seen
	journals int    // that have taken the place of one another, perhaps
}

// look has the loop look at a pair.
func (a *agenda) look(p *pair) { a.ready = append(a.ready, p) }

// at has the loop look again at t.
func (a *agenda) at(t time.Time) {
	if t.Before(a.due) {
		a.due = t
	}
}

// tickAt has the next look be at t if it would be later.
func (a *agenda) tickAt(t time.Time) {
	if t = t.Add(time.Millisecond); t.Before(a.nextTick) {
		a.nextTick = t
	}
}

// leave gives a pair back once it is not busy.
func (a *agenda) leave(p *pair) {
	p.leaving, a.hurry = true, true
	p.stopDrains()
}

// drop forgets a pair that is not ours any more.
func (a *agenda) drop(p *pair) {
	p.cancel()
	if a.pairs[p.Key] == p {
		delete(a.pairs, p.Key)
		a.metrics.Held.Set(float64(len(a.pairs)))
	}
}
