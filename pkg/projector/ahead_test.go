package projector_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// batches counts the batches that claim and read in one round trip.
type batches struct{ ahead atomic.Int64 }

type batchKey struct{}

func (b *batches) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var all strings.Builder
	for _, q := range data.Batch.QueuedQueries {
		all.WriteString(q.SQL)
	}
	if s := all.String(); strings.Contains(s, "tidemark.claim(") && strings.Contains(s, "FROM tidemark.journal") {
		b.ahead.Add(1)
	}
	return context.WithValue(ctx, batchKey{}, b)
}
func (b *batches) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (b *batches) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (b *batches) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (b *batches) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestAWorkerThatIsWokenClaimsAndReadsInOneRoundTrip(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	counts := &batches{}
	config := pool.Config()
	config.ConnConfig.Tracer = counts
	traced, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer traced.Close()
	p, err := projector.New(projector.Config{
		Pool: traced, Projections: []projection.Projection{counters()},
		PollInterval: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	// A single wakeup can coincide with a poll, so the test needs three.
	const campaigns = 3
	appended := 0
	for deadline := time.Now().Add(3 * time.Minute); counts.ahead.Load() < 3 && time.Now().Before(deadline); {
		for i := range campaigns {
			appendMoves(t, pool, string(rune('a'+i)), 1)
		}
		appended++
		for query[int](t, pool, `SELECT coalesce(sum((doc ->> 'sum')::int), 0)::int
			FROM counters`) < campaigns*appended && time.Now().Before(deadline) {
			select {
			case err := <-done:
				t.Fatal(err)
			case <-time.After(time.Millisecond):
			}
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if counts.ahead.Load() < 3 {
		t.Errorf("in %d rounds no worker claimed and read at once", appended)
	}
	if total, held := query[int](t, pool, `SELECT sum((doc ->> 'sum')::int)::int
		FROM counters`), query[int](t, pool, `SELECT count(*)::int FROM
		tidemark.leases WHERE expires_at > now()`); total != campaigns*appended || held != 0 {
		t.Errorf("%d of %d moves were applied, %d leases are held", total, campaigns*appended, held)
	}
}
