package publisher

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// heavy makes reads of the event at a position wait until their time limit ends them, unless they are of this
// event alone and have so much time.
type heavy struct {
	position int64
	needs    time.Duration

	mu    sync.Mutex
	ended int
}

func (h *heavy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, `FROM tidemark.journal WHERE "position" > $1`) {
		return ctx
	}
	after, most := data.Args[0].(int64), int64(data.Args[2].(int))
	deadline, _ := ctx.Deadline()
	if h.position <= after || h.position > after+most || most == 1 && time.Until(deadline) > h.needs {
		return ctx
	}
	h.mu.Lock()
	h.ended++
	h.mu.Unlock()
	<-ctx.Done()
	return ctx
}

func (h *heavy) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAnEventThatTakesLongerThanTheTimeLimitIsPublished has a limit that the read of a page meets, however
// fast the machine is.
func TestAnEventThatTakesLongerThanTheTimeLimitIsPublished(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		noted := event.Event{Type: "noted"}
		_, err := journal.Journal{}.Append(t.Context(), tx, "a", journal.Any, noted, noted, noted, noted)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const limit = 200 * time.Millisecond
	h := &heavy{needs: 2 * limit}
	if err := pool.QueryRow(t.Context(), `SELECT position FROM tidemark.journal WHERE seq = 3`).Scan(&h.position); err != nil {
		t.Fatal(err)
	}
	cfg := pool.Config().Copy()
	cfg.ConnConfig.Tracer = h
	traced, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	var mu sync.Mutex
	var got []int64
	all := make(chan struct{})
	r, err := New(Config{
		Pool: traced, NoListen: true, PollInterval: 100 * time.Millisecond, Topics: []Topic{{Name: "all"}},
		Publishers: []Publisher{{Name: "out", Topics: []string{"all"}, Sink: sinkFunc(func(events []Event) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range events {
				if got = append(got, events[i].Seq); events[i].Seq == 4 {
					close(all)
				}
			}
			return nil
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.reader.patience = pages.NewPatience(limit)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	defer running.Wait()
	defer stop()
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatal("the event holds up its publisher")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 4 || h.ended == 0 || len(r.Stuck()) > 0 {
		t.Errorf("published %v, %d reads were ended, stuck: %v", got, h.ended, r.Stuck())
	}
}
