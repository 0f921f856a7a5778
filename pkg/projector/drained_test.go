package projector_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// becomes polls until the query returns true.
func becomes(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		if query[bool](t, pool, sql, args...) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s %v", sql, args)
		}
	}
}

func TestAWorkerThatIsDrainedClaimsNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	read, write := io.Pipe()
	noticed := make(chan string, 8)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := read.Read(buffer)
			if err != nil {
				close(noticed)
				return
			}
			if line := string(buffer[:n]); strings.Contains(line, "drained=") {
				noticed <- line
			}
		}
	}()
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projection.Projection{counters()},
		Logger: slog.New(slog.NewTextHandler(write, nil)), PollInterval: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = write.Close()
		for range noticed { // until the pipe is closed
			continue
		}
	}()
	const beaten = `SELECT count(*) > 0 FROM tidemark.workers WHERE seen_at > $1`
	becomes(t, pool, beaten, time.Time{})
	owner := query[string](t, pool, `SELECT owner FROM tidemark.workers`)
	if found, err := lease.Drain(t.Context(), pool, owner, "ada"); !found || err != nil {
		t.Fatal(found, err)
	}
	beat := func() { becomes(t, pool, beaten, query[time.Time](t, pool, `SELECT seen_at FROM tidemark.workers`)) }
	<-noticed
	beat() // by then a claim under way has ended
	appendMoves(t, pool, "a", 1, 2)
	beat()
	if n := query[int](t, pool, `SELECT coalesce(sum(events), 0) FROM tidemark.outbox`); n != 2 {
		t.Errorf("a worker that was drained has left %d of 2 events", n)
	}
	if found, err := lease.Undrain(t.Context(), pool, owner); !found || err != nil {
		t.Fatal(found, err)
	}
	becomes(t, pool, `SELECT count(*) = 0 FROM tidemark.outbox`)
	if found, err := lease.Drain(t.Context(), pool, "nobody", "ada"); found || err != nil {
		t.Errorf("a worker that is not there: %t, %v", found, err)
	}
}
