package publish_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// writing is a set of running writers.
type writing struct {
	stop                  func() // stops the writers, with a last event of each type that topics select
	committed, rolledBack atomic.Int64
}

var errUndone = errors.New("undone")

// write starts writers that append until they are stopped. Some transactions roll back, some are
// slow, and some append to two campaigns, one of them shared by all writers.
func write(t *testing.T, pool *pgxpool.Pool, writers int, pause time.Duration) *writing {
	t.Helper()
	own := tally.Pool(t, pool.Config().ConnString(), "writer", int32(writers))
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	w := &writing{}
	for i := range writers {
		g.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				err := w.transaction(t.Context(), own, i, random)
				if err != nil {
					return err
				}
				waitFor(ctx, pause)
			}
			return nil
		})
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("write: %v", err)
		}
		if !t.Failed() {
			appendTo(t, pool, 1, "the last")
		}
	})
	t.Cleanup(func() { cancel(); _ = g.Wait() })
	return w
}

func (w *writing) transaction(ctx context.Context, pool *pgxpool.Pool, writer int, random *rand.Rand) error {
	campaigns := []string{fmt.Sprintf("w%d-%d", writer, random.IntN(3))}
	if random.IntN(8) == 0 {
		campaigns = append([]string{"of all"}, campaigns...) // sorted by name
	}
	appended := 0
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, campaign := range campaigns {
			events := make([]event.Event, 1+random.IntN(4))
			for i := range events {
				events[i].Type = []string{"noted", "told"}[random.IntN(2)]
			}
			if _, err := (journal.Journal{}).Append(ctx, tx, campaign, journal.Any, events...); err != nil {
				return err
			}
			appended += len(events)
		}
		choice := random.IntN(10)
		if choice < 3 {
			if _, err := tx.Exec(ctx, "SELECT pg_sleep($1)", random.Float64()/50); err != nil {
				return err
			}
		}
		if choice < 2 {
			return errUndone
		}
		return nil
	})
	switch {
	case err == nil:
		w.committed.Add(int64(appended))
	case errors.Is(err, errUndone):
		w.rolledBack.Add(int64(appended))
		err = nil
	}
	return err
}

// waitFor waits for d or until ctx ends.
func waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// appendTo appends n events to each of the campaigns in one transaction.
func appendTo(t *testing.T, pool *pgxpool.Pool, n int, campaigns ...string) {
	t.Helper()
	batches := make([]journal.Batch, len(campaigns))
	for i, campaign := range campaigns {
		batches[i] = journal.Batch{CampaignID: campaign, Events: make([]event.Event, n)}
		for k := range n {
			batches[i].Events[k].Type = "told"
		}
	}
	tally.AppendAll(t, pool, batches...)
}

// campaigns returns n names.
func campaigns(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("c%04d", i))
	}
	return names
}
