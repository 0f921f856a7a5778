package tally

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Append adds amounts to a campaign in one transaction.
func Append(t testing.TB, pool *pgxpool.Pool, campaign string, amounts ...int64) {
	t.Helper()
	events := make([]event.Event, len(amounts))
	for i, n := range amounts {
		events[i] = Event(n)
	}
	if err := write(t.Context(), pool, campaign, events, 0); err != nil {
		t.Fatal(err)
	}
}

// AppendAll appends to several campaigns in one transaction.
func AppendAll(t testing.TB, pool *pgxpool.Pool, batches ...journal.Batch) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func write(
	ctx context.Context, pool *pgxpool.Pool, campaign string, events []event.Event, linger time.Duration,
) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := (journal.Journal{}).Append(ctx, tx, campaign, journal.Any, events...); err != nil {
			return err
		}
		return wait(ctx, linger)
	})
}

// actor is the actor of a load's events.
const actor = "load"

// Load is a number of concurrent writers.
type Load struct {
	Pool      *pgxpool.Pool
	Writers   int
	Campaigns int           // a few hot and many cold ones; 0: a new one for each append
	Amounts   int64         // different ones; 0: 1000
	Pause     time.Duration // between two appends of a writer
	Linger    time.Duration // maximum time between an append and its commit
}

// Running is a load that runs until it is stopped.
type Running struct {
	stop     context.CancelFunc
	done     sync.WaitGroup
	appended atomic.Int64
	mu       sync.Mutex
	errs     []error
}

// Start starts the writers. An append whose outcome is unknown, because the server went away, is
// repeated with the same event ids until it is known.
func (l Load) Start(t testing.TB) *Running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &Running{stop: stop}
	for i := range l.Writers {
		r.done.Go(func() {
			if err := l.write(ctx, uint64(i), &r.appended); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.errs = append(r.errs, err)
			}
		})
	}
	t.Cleanup(func() { stop(); r.done.Wait() })
	return r
}

// Appended returns how many events have been acknowledged so far.
func (r *Running) Appended() int64 { return r.appended.Load() }

// Stop ends the load, checks that the journal holds every acknowledged event exactly once, and
// returns their number.
func (r *Running) Stop(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	r.stop()
	r.done.Wait()
	if err := errors.Join(r.errs...); err != nil {
		t.Fatal(err)
	}
	if n := Value[int64](t, pool, `SELECT count(*) FROM tidemark.journal WHERE actor = $1`, actor); n != r.Appended() {
		t.Errorf("the journal holds %d events of the load, acknowledged were %d", n, r.Appended())
	}
	return r.Appended()
}

func (l Load) write(ctx context.Context, seed uint64, appended *atomic.Int64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(random, 1.1, 4, uint64(max(l.Campaigns, 1)-1))
	for ctx.Err() == nil {
		events := make([]event.Event, 1+random.IntN(4))
		for i := range events {
			events[i] = Event(random.Int64N(cmp.Or(l.Amounts, 1000)))
			events[i].ID, events[i].Actor = uuid.New(), actor
		}
		campaign := fmt.Sprintf("campaign-%d", zipf.Uint64())
		if l.Campaigns == 0 {
			campaign = uuid.NewString()
		}
		linger := time.Duration(random.Int64N(int64(l.Linger) + 1))
		if err := l.insist(ctx, campaign, events, linger); err != nil {
			return err
		}
		appended.Add(int64(len(events)))
		_ = wait(ctx, l.Pause)
	}
	return nil
}

// insist appends until it knows that the events are committed.
func (l Load) insist(ctx context.Context, campaign string, events []event.Event, linger time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for {
		err := write(ctx, l.Pool, campaign, events, linger)
		if err == nil || !failure.IsInfrastructure(err) || ctx.Err() != nil {
			return err
		}
		_ = wait(ctx, 20*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
