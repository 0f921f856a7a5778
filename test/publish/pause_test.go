package publish_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestAPauseHoldsOverRestarts pauses a pair, then kills its worker and terminates the next one.
func TestAPauseHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.New(t), broker.Start(t)
	load := write(t, pool, 2, 5*time.Millisecond)
	w := spawn(t, pool, "first", file(b.Addr()))
	arrive(t, b, 100)
	key := everything()
	if err := publications.Suspend(t.Context(), pool, key, 0, anna()); err != nil {
		t.Fatal(err)
	}
	tally.Eventually(t, "the pair is given back", tally.Holds(pool, `SELECT expires_at = '-infinity'
		FROM tidemark.readers WHERE topic = $1 AND publisher = $2`, key.Topic, key.Publisher))
	paused := len(b.Arrivals(key.Topic, key.Publisher))
	for _, restart := range []func(*testing.T){
		func(t *testing.T) { w.kill(t) }, func(t *testing.T) { w.terminate(t) },
		func(*testing.T) {},
	} {
		restart(t)
		w = spawn(t, pool, "next", file(b.Addr()))
		w.holds(t, pool)
		beats(t, pool)
		arrive(t, b, 200) // events of other pairs
	}
	if n := len(b.Arrivals(key.Topic, key.Publisher)); n != paused {
		t.Errorf("%d events arrived while the pair was paused", n-paused)
	}
	if got := tally.Value[string](t, pool, `SELECT status || ' by ' || actor || ': ' || reason FROM tidemark.readers
		WHERE status <> 'ACTIVE'`); got != "PAUSED by anna: she said so" {
		t.Errorf("the pair is %s", got)
	}
	if err := publications.Resume(t.Context(), pool, key, anna()); err != nil {
		t.Fatal(err)
	}
	load.stop()
	for _, key := range pairs() {
		verify(t, pool, b, key)
	}
}
