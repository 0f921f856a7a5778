package publisher

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/pgtest"
)

// await waits until a query answers true.
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

// seldom is a relay of two pairs that looks around once an hour, unless it is told to, and runs until the test ends.
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

// Whoever gives a pair back says so, and whoever it goes to need not be about to look.
func TestAPairThatIsGivenBackIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first := seldom(t, pool)
	await(t, pool, "the first has both pairs", "SELECT count(*) = 2 FROM tidemark.publications WHERE owner = $1 AND expires_at > now()", first.owner)
	second := seldom(t, pool)
	await(t, pool, "the second is there", "SELECT count(*) = 2 FROM tidemark.relays")
	await(t, pool, "both listen", `SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query = 'LISTEN `+channel+`'`)
	signal(first.listener.nudge) // it sees the second, and that one of the pairs is the other's
	await(t, pool, "each has one", "SELECT count(*) = 1 AND bool_and(expires_at > now()) FROM tidemark.publications WHERE owner = $1", second.owner)
}

// TestAPairOfATimeThatHasNotComeYet has the rows say what they say after the server's clock has gone back an hour.
func TestAPairOfATimeThatHasNotComeYet(t *testing.T) {
	t.Parallel()
	const (
		left = `INSERT INTO tidemark.publications (topic, publisher, position, owner, generation, expires_at) VALUES ('all', 'out', 0, 'other', 3, clock_timestamp() + interval '1 hour');
			INSERT INTO tidemark.relays (owner, host, pid, knows, seen_at, expires_at, pairs_held) VALUES ('other', 'host', 1, '{all,out}', `
		dead  = `clock_timestamp() + interval '59 min', clock_timestamp() + interval '1 hour', 1)`
		alive = `clock_timestamp(), clock_timestamp() + interval '1 hour', 1)`
	)
	for name, one := range map[string]struct {
		seen string
		free int64
	}{"of a relay that died before": {dead, 1}, "of a relay that lives": {alive, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, _ := prepare(t, left+one.seen)
			if n := affected(t, pool, queryClaim, "mine", []string{"all"}, []string{"out"}, time.Minute); n != one.free {
				t.Errorf("%d pairs are claimed, want %d", n, one.free)
			}
		})
	}
	t.Run("is taken over by a relay that runs", func(t *testing.T) {
		t.Parallel()
		pool, _ := prepare(t, left+dead)
		r, err := New(Config{
			Pool: pool, LeaseTTL: time.Minute, Topics: []Topic{{Name: "all"}}, Publishers: []Publisher{{Name: "out", Sink: sinkFunc(accepts), Topics: []string{"all"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		await(t, pool, "the relay has the pair", "SELECT owner = $1 AND generation > 3 FROM tidemark.publications", r.owner)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What a crash costs: a lease ends one TTL after it was last prolonged, and then, not before, the pair is free.
func TestALeaseLastsOneTTLAndThenThePairIsFree(t *testing.T) {
	t.Parallel()
	pool, here := prepare(t, `INSERT INTO tidemark.publications (topic, publisher, position) VALUES ('all', 'out', 10)`)
	claim := func(owner string) int64 {
		return affected(t, pool, queryClaim, owner, []string{"all"}, []string{"out"}, time.Minute)
	}
	left := func(when string) {
		t.Helper()
		var left time.Duration
		if err := pool.QueryRow(t.Context(), "SELECT expires_at - clock_timestamp() FROM tidemark.publications").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left > time.Minute || left < time.Second {
			t.Errorf("%s the lease lasts another %s, want a minute", when, left)
		}
	}
	if n := claim("me"); n != 1 {
		t.Errorf("%d free pairs were claimed", n)
	}
	left("when it was claimed")
	if n := claim("you"); n != 0 {
		t.Error("a pair that is another's was claimed")
	}
	if n := affected(t, pool, queryMove, "me", []string{"all"}, []string{"out"}, []int64{1}, []int64{20}, []int64{1}, []bool{false}, time.Minute, here); n != 1 {
		t.Error("the holder cannot prolong its lease")
	}
	left("when it was prolonged")
	if _, err := pool.Exec(t.Context(), "UPDATE tidemark.publications SET expires_at = clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	if n := claim("you"); n != 1 {
		t.Error("a pair whose lease is over was not claimed")
	}
	var generation int64
	if err := pool.QueryRow(t.Context(), "SELECT generation FROM tidemark.publications").Scan(&generation); err != nil || generation != 2 {
		t.Errorf("claimed twice it has generation %d, %v", generation, err)
	}
}

// A pair is given back once its batch is over, and not while another could send what comes next beside it.
func TestAPairIsNotGivenBackWhileABatchIsUnderWay(t *testing.T) {
	t.Parallel()
	r, key := alone(t, sinkFunc(accepts))
	r.db = newConnections(pgtest.New(t))
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
	for r.working > 0 { // it is over before the database goes
		(<-r.inbox)()
	}
}
