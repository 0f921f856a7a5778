package publisher

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// await waits until a query returns true.
func await(t *testing.T, pool *pgxpool.Pool, what, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var holds bool
		if err := pool.QueryRow(ctx, query, args...).Scan(&holds); err != nil {
			t.Fatalf("it did not come to be that %s: %v", what, err)
		}
		if holds {
			return
		}
		<-tick.C
	}
}

// seldom runs a relay of two pairs until the test ends. Unless notified, the relay looks at the
// tables once an hour.
func seldom(t *testing.T, pool *pgxpool.Pool) *Relay {
	t.Helper()
	r, err := New(Config{
		Pool: pool, LeaseTTL: time.Hour, Topics: []Topic{{Name: "a"}, {Name: "b"}},
		Publishers: []Publisher{{Name: "out", Sink: sinkFunc(accepts), Topics: []string{"a", "b"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.tickEvery = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// A relay that releases a pair notifies the others, so the next owner does not wait for its own
// tick.
func TestAPairThatIsGivenBackIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first := seldom(t, pool)
	await(t, pool, "the first has both pairs",
		"SELECT count(*) = 2 FROM tidemark.readers WHERE owner = $1 AND expires_at > now()", first.owner)
	second := seldom(t, pool)
	await(t, pool, "the second is there", "SELECT count(*) = 2 FROM tidemark.relays")
	await(t, pool, "both listen", `SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database()
		AND state = 'idle' AND query LIKE '%LISTEN `+ledger.Channel+`'`)
	loops.Signal(first.listener.changed) // makes first see second, and release one pair to it
	await(t, pool, "each has one",
		"SELECT count(*) = 1 AND bool_and(expires_at > now()) FROM tidemark.readers WHERE owner = $1", second.owner)
}

// The rows are as if the server's clock had gone back an hour after they were written.
func TestAPairOfATimeThatHasNotComeYetIsTakenOver(t *testing.T) {
	t.Parallel()
	pool := prepare(t, `INSERT INTO tidemark.readers (topic, publisher, position, owner, generation, expires_at)
		VALUES ('all', 'out', 0, 'other', 3, clock_timestamp() + interval '1 hour');
		INSERT INTO tidemark.relays (owner, host, pid, knows, seen_at, expires_at, pairs_held) VALUES
			('other', 'host', 1, '{all,out}', clock_timestamp() + interval '59 min', clock_timestamp() + interval '1 hour', 1)`)
	r, err := New(Config{
		Pool: pool, LeaseTTL: time.Minute, Topics: []Topic{{Name: "all"}},
		Publishers: []Publisher{{Name: "out", Sink: sinkFunc(accepts), Topics: []string{"all"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	await(t, pool, "the relay has the pair", "SELECT owner = $1 AND generation > 3 FROM tidemark.readers", r.owner)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A pair is released only once its batches are over. Otherwise the next owner could send later
// events beside them.
func TestAPairIsNotGivenBackWhileABatchIsUnderWay(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	r.db = ledger.New(pgtest.New(t), r.owner, ledger.Publisher, r.cfg.LeaseTTL)
	p := claimed(r, key, 0)
	p.reporting, p.leaving, p.busy = false, true, true
	if r.saver.save(time.Now()); r.saver.saving {
		t.Error("it is given back, and a batch is under way")
	}
	p.busy, p.draining["a"] = false, true
	if r.saver.save(time.Now()); r.saver.saving {
		t.Error("it is given back, and a campaign is being brought back")
	}
	delete(p.draining, "a")
	r.hurry = true
	if r.saver.save(time.Now()); !r.saver.saving {
		t.Error("nothing is under way, and it is not given back")
	}
	for r.working > 0 { // wait for the jobs under way before the database is dropped
		(<-r.inbox)()
	}
}
