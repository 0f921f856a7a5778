package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// looks counts the looks of a scheduler.
type looks struct {
	mu          sync.Mutex
	whole, some int // from the beginning, and behind what is made
}

func (*looks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*looks) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*looks) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (*looks) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (l *looks) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if !strings.Contains(data.SQL, "tidemark.fire_scheduled") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if fmt.Sprint(data.Args[2]) == "<nil>" {
		l.whole++
	} else {
		l.some++
	}
}

// TestASchedulerLooksFromTheBeginningOnceASecond lets appends become due one after another. An old snapshot would
// have each look from the beginning step over all that are made.
func TestASchedulerLooksFromTheBeginningOnceASecond(t *testing.T) {
	t.Parallel()
	config, l := pgtest.New(t).Config(), &looks{}
	config.ConnConfig.Tracer = l
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const n = 100
	began := time.Now()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range n {
			at := began.Add(1500*time.Millisecond + time.Duration(i)*10*time.Millisecond)
			if _, err := (journal.Journal{}).AppendAt(t.Context(), tx, fmt.Sprint("a", i), at, event.Event{Type: "due"}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	run(t, pool, 5*time.Millisecond)
	tally.Eventually(t, "all are made", tally.Holds(pool, `SELECT count(*) = $1 FROM tidemark.journal`, n))
	l.mu.Lock()
	if most := int(time.Since(began)/time.Second) + 2; l.whole > most || l.some == 0 {
		t.Errorf("%d looks begin at the beginning, at most %d should; %d do not", l.whole, most, l.some)
	}
	l.mu.Unlock()
	due(t, pool, "past") // before what is made, and nothing notifies
	tally.Eventually(t, "an append that was due before is made", firedIn(pool, "past"))
}
