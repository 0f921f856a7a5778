package crash_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/waiter"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

func TestAWaitOutlivesAWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	pool, url := prepared(t)
	w := waiter.New(pool, nil)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	cfg := standard(url, "victim")
	cfg.HaltAt, cfg.Concurrency = kind.StepApplied, 1
	victim := worker.Start(t, cfg)
	var appended []journal.Appended
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		appended, err = journal.Journal{}.Append(t.Context(), tx, "a", journal.Any, tally.Event(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	token, names := appended[0].Token(), []string{tally.Both()[0].Spec().Name, tally.Both()[1].Spec().Name}
	waits := make(chan error, 1)
	go func() { waits <- w.Wait(t.Context(), token, names...) }()
	victim.Halts(t)
	victim.Kill(t)
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Wait(soon, token, names...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing is applied, and a wait returns %v", err)
	}
	worker.Start(t, standard(url, "successor"))
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if n := tally.Value[int](t, pool, "SELECT count(*) FROM entries"); n != 1 {
		t.Errorf("%d events are applied after the wait", n)
	}
	tally.Verify(t, pool, "")
}
