package publisher

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/publisher/internal/ledger"
)

// base is what all parts of a relay share: its configuration, the database, and the way to do what takes time.
type base struct {
	cfg       Config
	db        *ledger.Ledger
	routes    map[Key]*route
	metrics   *metrics
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

// fenced runs write in a transaction in which the pair is certainly ours.
func (b *base) fenced(ctx context.Context, p *pair, write func(tx pgx.Tx) error) error {
	return b.db.Fenced(ctx, ledger.Pair(p.Key), p.generation, p.instance, write)
}

func (b *base) unwritten(err error, what string) {
	if err != nil && b.ctx.Err() == nil {
		b.cfg.Logger.WarnContext(b.ctx, "cannot write "+what, "error", err)
	}
}
