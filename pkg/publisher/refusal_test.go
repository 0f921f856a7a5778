package publisher_test

import (
	"sync/atomic"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// A pair whose sink is back has no error, even if the sink refuses each of its events.
func TestASinkThatIsThereAndRefusesEachEventIsNotDown(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var back atomic.Bool
	sink := &memory.Sink{
		Refuse: func(publisher.Event) (error, bool) { return errRefused, true },
		Down: func() error {
			if back.Load() {
				return nil
			}
			return memory.ErrDown
		},
	}
	appendTo(t, pool, 1, "a", "b")
	start(t, quick(pool, sink))
	eventually(t, "it has failed", func() bool {
		return query[int](t, pool, "SELECT coalesce(max(error_count), 0) FROM tidemark.readers") > 2
	})
	back.Store(true)
	eventually(t, "both are parked", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked'") == 2
	})
	eventually(t, "the pair has no error", func() bool {
		return query[string](t, pool, "SELECT error_count || ' ' || last_error FROM tidemark.readers") == "0 refused"
	})
}

func TestARetryHasAllAttemptsBeforeIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink, _ := poison(false)
	appendTo(t, pool, 3, "a", "c0500")
	start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.Attempts = 3 }))
	const parked = "SELECT count(*) FROM tidemark.parked WHERE status = 'parked' AND attempt_count = 3"
	eventually(t, "it is parked", func() bool { return query[int](t, pool, parked) == 1 })
	mustExec(t, pool, "UPDATE tidemark.parked SET last_failed_at = NULL")
	if _, err := publications.Retry(t.Context(), pool, publications.ParkedFilter{}, anna()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is parked again", func() bool {
		return query[int](t, pool, parked+" AND last_failed_at IS NOT NULL") == 1
	})
}
