package projector_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// recentClaims counts the claims that look at recent events only.
type recentClaims struct {
	batches
	n atomic.Int64
}

func (r *recentClaims) TraceBatchStart(
	ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData,
) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		if strings.Contains(q.SQL, "tidemark.claim_recent(") {
			r.n.Add(1)
		}
	}
	return r.batches.TraceBatchStart(ctx, conn, data)
}

// TestWorkersFindAllWorkWhileASnapshotKeepsDeadRows has two workers that meet so many dead rows that
// they claim from recent events. One campaign has work that no recent event shows.
func TestWorkersFindAllWorkWhileASnapshotKeepsDeadRows(t *testing.T) {
	t.Parallel()
	const campaigns, rounds = 20, 30
	pool := pgtest.New(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	counts := &recentClaims{}
	config := pool.Config()
	config.ConnConfig.Tracer = counts
	traced, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	workers := make([]*projector.Projector, 2)
	for i := range workers {
		workers[i], err = projector.New(projector.Config{
			Pool: traced, Projections: []projection.Projection{counters()}, PollInterval: 100 * time.Millisecond,
			GroupEvents: 5, // so "long" takes 80 groups or more
		})
		if err == nil {
			err = workers[i].Register(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	appendMoves(t, pool, "hidden", 1)
	exec("CREATE TABLE hidden AS TABLE tidemark.outbox")
	exec("DELETE FROM tidemark.outbox")
	for range 2 { // more events than a recent claim reads
		appendMoves(t, pool, "past", make([]int, 600)...)
	}
	exec("DELETE FROM tidemark.outbox")
	exec("INSERT INTO tidemark.leases SELECT name, 'past', '', 1, '-infinity', 1200, 1200 FROM tidemark.consumer_groups")

	holder, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT pg_current_xact_id()"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO tidemark.outbox SELECT name, 'past', s, now(), 1
		FROM tidemark.consumer_groups, generate_series(1, 100000) AS s`)
	exec("DELETE FROM tidemark.outbox")

	for _, p := range workers {
		running(t, p)
	}
	appendMoves(t, pool, "long", make([]int, 400)...)
	for round := range rounds {
		for i := range campaigns {
			appendMoves(t, pool, fmt.Sprint("c", i), 1)
		}
		if round == rounds/2 {
			exec("INSERT INTO tidemark.outbox TABLE hidden ON CONFLICT DO NOTHING") // the workers may find the gap earlier
		}
	}
	tally.Eventually(t, "all events are applied", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
		AND (SELECT sum((doc ->> 'sum')::int) = $1 FROM counters)`, campaigns*rounds+1))
	if counts.n.Load() == 0 {
		t.Error("no claim looked at recent events only")
	}
}
