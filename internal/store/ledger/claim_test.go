package ledger

import (
	"testing"
	"time"
)

// TestAPairOfATimeThatHasNotComeYet uses rows as if the server's clock had gone back an hour after
// they were written.
func TestAPairOfATimeThatHasNotComeYet(t *testing.T) {
	t.Parallel()
	const (
		left = `INSERT INTO tidemark.readers (topic, publisher, position, owner, generation, expires_at)
			VALUES ('all', 'out', 0, 'other', 3, clock_timestamp() + interval '1 hour');
			INSERT INTO tidemark.relays (owner, host, pid, knows, seen_at, expires_at, pairs_held)
				VALUES ('other', 'host', 1, '{all,out}', `
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
}

// After a crash, a pair is free one TTL after its lease was last renewed, and not before.
func TestALeaseLastsOneTTLAndThenThePairIsFree(t *testing.T) {
	t.Parallel()
	pool, here := prepare(t, `INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'out', 10)`)
	claim := func(owner string) int64 {
		return affected(t, pool, queryClaim, owner, []string{"all"}, []string{"out"}, time.Minute)
	}
	left := func(when string) {
		t.Helper()
		var left time.Duration
		if err := pool.QueryRow(t.Context(),
			"SELECT expires_at - clock_timestamp() FROM tidemark.readers").Scan(&left); err != nil {
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
	if n := affected(t, pool, queryMove, "me", []string{"all"}, []string{"out"}, []int64{1}, []int64{20}, []int64{1},
		[]bool{false}, time.Minute, here); n != 1 {
		t.Error("the holder cannot prolong its lease")
	}
	left("when it was prolonged")
	if _, err := pool.Exec(t.Context(), "UPDATE tidemark.readers SET expires_at = clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	if n := claim("you"); n != 1 {
		t.Error("a pair whose lease is over was not claimed")
	}
	var generation int64
	if err := pool.QueryRow(t.Context(), "SELECT generation FROM tidemark.readers").Scan(&generation); err != nil ||
		generation != 2 {
		t.Errorf("claimed twice it has generation %d, %v", generation, err)
	}
}
