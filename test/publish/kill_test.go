package publish_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// pairs returns the pairs of [file].
func pairs() []publications.Key {
	return []publications.Key{
		{Topic: "everything", Publisher: "out"},
		{Topic: "told", Publisher: "out"},
		{Topic: "everything", Publisher: "other"},
		{Topic: "told", Publisher: "other"},
		{Topic: "everything", Publisher: "global"},
	}
}

// TestWorkersKilledAndStoppedAtRandomLoseNothing kills workers at random moments, or stops them
// until others have taken over.
func TestWorkersKilledAndStoppedAtRandomLoseNothing(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.New(t), broker.Start(t)
	publishers := file(slow(t, b))
	watchOwners(t, pool)
	watchParked(t, pool)
	appendTo(t, pool, 30, campaigns(30)...) // a backlog, so that batches are in progress at the first kill
	var workers []*worker
	for i := range 3 {
		workers = append(workers, spawn(t, pool, fmt.Sprint("worker-", i), publishers))
	}
	load := write(t, pool, 6, 2*time.Millisecond)
	for round := range 4 {
		i := rand.IntN(len(workers))
		victim := workers[i]
		victim.holds(t, pool)
		until := b.Taken() + 1 + rand.IntN(300)
		eventually(t, "events arrive", func() bool { return b.Taken() >= until })
		if round%2 == 0 {
			victim.kill(t)
			workers[i] = spawn(t, pool, fmt.Sprint("worker-", len(workers)+round), publishers)
			continue
		}
		victim.signal(t, syscall.SIGSTOP)
		victim.replaced(t, pool)
		until = b.Taken() + 200
		eventually(t, "others publish", func() bool { return b.Taken() >= until })
		victim.signal(t, syscall.SIGCONT)
	}
	load.stop()
	for _, key := range pairs() {
		verify(t, pool, b, key)
	}
	heldOnce(t, pool)
	nothingParked(t, pool)
	for _, w := range workers {
		w.terminate(t)
	}
}
