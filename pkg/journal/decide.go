package journal

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
)

// mostSeen bounds the events past the writer floor that a decision takes in. Those beyond are left to the next attempt.
const mostSeen = 256

// Read returns the first limit events that a query selects, from position from on (inclusive; 0:
// from the first), in order of position and up to the writer floor: no event that is left out can
// appear among them later. An event that has just been appended may be left out for as long as an
// append with a lower position is in flight; [Decide] takes it in. It must not run inside a
// REPEATABLE READ or SERIALIZABLE transaction.
func Read(ctx context.Context, db Querier, q Query, from int64, limit int) ([]Event, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	events, err := collect(ctx, db, queryRead, string(appendQuery(nil, q)), from, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events of a query from position %d: %w", from, err)
	}
	return events, nil
}

// ReadBelow is [Read] up to a floor that [Floor] answered before. It is for readers that go page by page.
func ReadBelow(ctx context.Context, db Querier, q Query, from, floor int64, limit int) ([]Event, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	return readMatches(ctx, db, string(appendQuery(nil, q)), from-1, floor, limit)
}

func readMatches(ctx context.Context, db Querier, query string, after, until int64, limit int) ([]Event, error) {
	events, err := collect(ctx, db, queryMatches, query, after, until, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events of a query after position %d: %w", after, err)
	}
	return events, nil
}

// Model is a decision model: the state that the events of a query fold into. Make one with
// [NewModel], bring it up to date with [DecideAll].
type Model[S any] struct {
	State S // what the events folded into, after DecideAll

	query Query
	fold  func(*S, Event) error
}

// NewModel returns a model of the events that q selects. Its state starts as the zero value of S;
// fold adds one event to it and may return an error to end the read.
func NewModel[S any](q Query, fold func(state *S, e Event) error) *Model[S] {
	return &Model[S]{query: q, fold: fold}
}

// Folder is a [*Model] of any state.
type Folder interface {
	selects() Query
	begin()
	add(e Event) error
}

func (m *Model[S]) selects() Query { return m.query }

func (m *Model[S]) begin() { m.State = *new(S) }

func (m *Model[S]) add(e Event) error { return m.fold(&m.State, e) }

// Decide folds the events that q selects, and no others, into a state, in order of position, and
// returns it with the condition to append with: that no event has been added that q selects and the
// state does not contain. Errors of fold come back wrapped.
//
// It reads outside of the append's transaction, or in it under READ COMMITTED; under REPEATABLE
// READ and SERIALIZABLE it is refused. An append that is still in flight is not waited for: should
// it turn out to be one that q selects, the condition fails.
func Decide[S any](ctx context.Context, db Querier, q Query, fold func(state *S, e Event) error) (S, Condition, error) {
	m := NewModel(q, fold)
	condition, err := DecideAll(ctx, db, m)
	return m.State, condition, err
}

// DecideAll brings several models up to date in one read, each with the events that its own query
// selects, and returns the one condition to append with. Their states are of one moment. A model
// may be used again: it starts afresh.
func DecideAll(ctx context.Context, db Querier, models ...Folder) (Condition, error) {
	if len(models) == 0 {
		return Condition{}, fmt.Errorf("decide: there are no models: name one at least")
	}
	union := models[0].selects()
	for _, m := range models {
		union = union.Or(m.selects())
		m.begin()
	}
	if err := union.check(); err != nil {
		return Condition{}, err
	}
	query := string(appendQuery(nil, union))
	floor, events, err := readFirst(ctx, db, query)
	if err != nil {
		return Condition{}, err
	}
	condition := Condition{FailIfMatch: union, After: floor}
	for after := int64(0); ; {
		if after > 0 {
			if events, err = readMatches(ctx, db, query, after, math.MaxInt64, pageEvents); err != nil {
				return Condition{}, err
			}
		}
		for _, e := range events {
			if e.Position > floor {
				if len(condition.seen) == mostSeen {
					return condition, nil
				}
				condition.seen = append(condition.seen, e.Position)
			}
			if err := addTo(models, e); err != nil {
				return Condition{}, fmt.Errorf("fold event %d of campaign %s (%s): %w", e.Seq, shortened(e.CampaignID),
					shortened(e.Type), err)
			}
			after = e.Position
		}
		// Past the floor one page is all: what two reads show there need not be of one moment.
		if len(events) < pageEvents || after > floor {
			return condition, nil
		}
	}
}

// batcher is a Querier that sends several statements at once, as those of pgx do.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// readFirst reads the writer floor and then, in a later statement but the same round trip if db
// can, the first page of what a query selects.
func readFirst(ctx context.Context, db Querier, query string) (floor int64, events []Event, err error) {
	sender, ok := db.(batcher)
	if !ok {
		if floor, err = Floor(ctx, db); err != nil {
			return 0, nil, err
		}
		events, err = readMatches(ctx, db, query, 0, math.MaxInt64, pageEvents)
		return floor, events, err
	}
	var batch pgx.Batch
	batch.Queue(queryFloor).QueryRow(func(row pgx.Row) error { return row.Scan(&floor) })
	batch.Queue(queryMatches, query, 0, int64(math.MaxInt64), pageEvents).Query(func(rows pgx.Rows) (err error) {
		events, _, err = collectBytes(rows, 0, math.MaxInt64)
		return err
	})
	if err := sender.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, nil, fmt.Errorf("read the writer floor and the events of a query: %w", err)
	}
	return floor, events, nil
}

// addTo hands the event to the models that select it.
func addTo(models []Folder, e Event) error {
	for _, m := range models {
		if len(models) > 1 && !m.selects().Matches(e) {
			continue
		}
		if err := m.add(e); err != nil {
			return err
		}
	}
	return nil
}
