package publisher

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// before calls run right before a statement is sent.
type before struct {
	statement string
	run       func()
}

func (b before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, b.statement) {
		b.run()
	}
	return ctx
}

func (before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// An event appended between the empty read and the announcement that a relay waits sends no
// notification. A second read must find it.
func TestWhatIsAppendedBeforeTheWaitIsKnownIsSeen(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := pool.Config().Copy()
	appended := 0
	cfg.ConnConfig.Tracer = before{"tidemark.wait_for_work", func() {
		appended++
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "a", journal.Any, event.Event{Type: "noted"})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}}
	traced, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	r, _ := alone(t, sinkFunc(accepts))
	r.db = ledger.New(traced, r.owner, ledger.Publisher, r.cfg.LeaseTTL)
	w, err := r.reader.readWindow(t.Context(), &reading{Query: pages.Query{Announce: time.Minute, Events: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if appended != 1 || len(w.Events) != 1 {
		t.Errorf("%d events were appended, %d were seen", appended, len(w.Events))
	}
}

// A relay is not notified of appends before it listens or while its connection is down.
func TestARelayThatBeginsToListenLooksOnce(t *testing.T) {
	t.Parallel()
	r, _ := alone(t, sinkFunc(accepts))
	r.listener = newListener(pgtest.New(t), r.cfg.Logger)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.listener.run(ctx)
	}()
	select {
	case <-r.listener.wake:
	case <-ctx.Done():
		t.Error("it listens, and does not look at what was appended before")
	}
	cancel()
	<-done
}
