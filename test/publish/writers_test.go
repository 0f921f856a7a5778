package publish_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestEveryPublisherSeesEveryEventOf48Writers hands out positions in another order than that of
// their commits, some never committed, while an unrelated transaction is open.
func TestEveryPublisherSeesEveryEventOf48Writers(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.New(t), broker.Start(t)
	stranger, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Exec(t.Context(), "CREATE TABLE strangers AS SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	watchParked(t, pool)
	for range 2 {
		run(t, quick(t, pool, b.Addr(), func(c *publisher.Config, out *publisher.Publisher) {
			for _, p := range []publisher.Publisher{
				{Name: "other", Topics: []string{"everything", "told"}, BatchSize: 7},
				{Name: "global", Topics: []string{"everything"}, Order: publisher.OrderGlobal},
			} {
				sink := &broker.Sink{Addr: b.Addr(), Publisher: p.Name}
				t.Cleanup(func() { _ = sink.Close() })
				p.Sink, p.Timeout, p.BackoffMax = sink, out.Timeout, out.BackoffMax
				c.Publishers = append(c.Publishers, p)
			}
			out.Topics = []string{"everything", "told"}
		}))
	}
	load := write(t, pool, 48, time.Millisecond)
	eventually(t, "enough is written", func() bool {
		return load.committed.Load() >= 2500 && load.rolledBack.Load() >= 250
	})
	load.stop()
	for _, key := range pairs() {
		verify(t, pool, b, key)
	}
	last := int64(0)
	seen := map[int64]bool{}
	for _, a := range b.Arrivals("everything", "global") {
		if !seen[a.Position] && a.Position < last {
			t.Errorf("position %d came after %d", a.Position, last)
		}
		seen[a.Position], last = true, max(last, a.Position)
	}
	nothingParked(t, pool)
	if err := stranger.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
