package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Retry retries attempts that lose a race. Before each retry it waits a random time up to a bound
// that doubles (full jitter).
type Retry struct {
	Attempts int           // default 10
	First    time.Duration // the bound of the first wait; default 5 ms
	Most     time.Duration // the largest bound; default 1 s
}

// Do calls attempt until it succeeds, returns another error, or has been called Attempts times. It
// returns the last error. It retries [ErrConditionFailed], [ErrVersionConflict], [ErrStaleSnapshot],
// conditions of a lost history, and Postgres' serialization failures and deadlocks. It returns early when ctx
// ends.
func (r Retry) Do(ctx context.Context, attempt func(ctx context.Context) error) error {
	attempts, first, most := cmp.Or(r.Attempts, 10), cmp.Or(r.First, 5*time.Millisecond), cmp.Or(r.Most, time.Second)
	for n := 1; ; n++ {
		err := attempt(ctx)
		if err == nil || !worthRetrying(err) {
			return err
		}
		if n >= attempts {
			return fmt.Errorf("after %d attempts: %w", n, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(max(min(first, most), 0) + 1)):
		}
		first = min(2*first, most)
	}
}

// CommitIf decides and appends in a READ COMMITTED transaction of its own.
//
// decide returns the events to append and their condition; without events nothing is appended. It
// must read with db, the append's own transaction: the pool may have no other connection.
//
// If other appends came first it decides and appends again: once at once, holding the locks of the
// first append, then in a new transaction after a wait. So deciders on the same events take turns,
// and a slow decision delays the others.
//
// Events get ids before they are appended. If a connection breaks and the outcome of the COMMIT is
// unknown, the same events are appended again: they are in the journal once. Errors are those of
// decide, of [Journal.AppendIf], and of the connection.
func (j Journal) CommitIf(
	ctx context.Context, db *pgxpool.Pool,
	decide func(ctx context.Context, db event.Querier) ([]event.Event, Condition, error),
) ([]Appended, error) {
	d := decision{journal: j, decide: decide}
	err := j.Retry.Do(ctx, func(ctx context.Context) error {
		d.undecided = false
		err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return d.attempt(ctx, tx)
		})
		if err == nil || d.undecided || answered(err) {
			d.doubtful = false
			return err
		}
		d.doubtful = d.sent
		if ctx.Err() != nil {
			return err
		}
		return &doubtError{err}
	})
	if err != nil {
		return nil, err
	}
	return d.places, nil
}

// decision is the events to append and the outcome.
type decision struct {
	journal Journal
	decide  func(ctx context.Context, db event.Querier) ([]event.Event, Condition, error)

	events    []event.Event
	condition Condition
	undecided bool // decide failed
	sent      bool // the last attempt got as far as the append
	doubtful  bool // the events may already be in the journal
	places    []Appended
}

// make reads and decides. It returns false if there is nothing to append.
func (d *decision) make(ctx context.Context, tx pgx.Tx) (bool, error) {
	d.sent = false
	events, condition, err := d.decide(ctx, tx)
	if d.undecided = err != nil; d.undecided || len(events) == 0 {
		return false, err
	}
	d.events, d.condition = identified(events), condition
	return true, nil
}

func (d *decision) attempt(ctx context.Context, tx pgx.Tx) (err error) {
	d.places = nil
	if !d.doubtful {
		if some, err := d.make(ctx, tx); err != nil || !some {
			return err
		}
	}
	d.sent = true
	d.places, err = d.journal.appendIf(ctx, tx, queryAppendIfKeeping, d.events, d.condition)
	if !errors.Is(err, ErrConditionFailed) {
		return err
	}
	if some, err := d.make(ctx, tx); err != nil || !some {
		return err
	}
	d.sent = true
	d.places, err = d.journal.appendIfAndCommit(ctx, tx, d.events, d.condition)
	return err
}

// doubtError wraps the error of an append that may have happened, or of a connection broken before it.
type doubtError struct{ error }

func (e *doubtError) Unwrap() error { return e.error }

// answered reports whether err means that nothing was appended: the database refused, or the call
// never reached it. A server that is shutting down also returns an error but may have committed.
func answered(err error) bool {
	if code := feed.SQLState(err); code != "" {
		return !strings.HasPrefix(code, stateGoingDown)
	}
	_, refused := errors.AsType[*InvalidEventError](err)
	_, encoding := errors.AsType[*event.EncodingError](err)
	return refused || encoding || slices.ContainsFunc([]error{
		ErrConditionFailed, ErrVersionConflict, event.ErrInvalidQuery, ErrInvalidCondition, catalogue.ErrWrappingKey,
		catalogue.ErrBrokenKey,
	}, func(target error) bool { return errors.Is(err, target) })
}

// worthRetrying reports whether the same call may succeed on another attempt.
func worthRetrying(err error) bool {
	var doubt *doubtError
	var race *raceError
	return slices.Contains([]string{stateSerializationFailure, stateDeadlock}, feed.SQLState(err)) ||
		errors.As(err, &doubt) || errors.As(err, &race) || errors.Is(err, ErrConditionFailed) ||
		errors.Is(err, ErrVersionConflict) ||
		errors.Is(err, ErrStaleSnapshot) || errors.Is(err, errOtherHistory)
}

func identified(events []event.Event) []event.Event {
	events = slices.Clone(events)
	for i := range events {
		if events[i].ID == uuid.Nil {
			events[i].ID = uuid.Must(uuid.NewV7())
		}
	}
	return events
}
