package journal

import (
	"context"
	"fmt"
	"math"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// mostSeen bounds the events past the writer floor that a decision takes in. Those beyond are left to the next attempt.
const mostSeen = 256

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
	if err := feed.CheckQuery(union); err != nil {
		return Condition{}, err
	}
	query := string(feed.AppendQuery(nil, union))
	floor, events, err := feed.ReadFirst(ctx, db, query)
	if err != nil {
		return Condition{}, err
	}
	condition := Condition{FailIfMatch: union, After: floor}
	for after := int64(0); ; {
		if after > 0 {
			if events, err = feed.ReadMatches(ctx, db, query, after, math.MaxInt64, feed.PageEvents); err != nil {
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
				return Condition{}, foldError(&e, err)
			}
			after = e.Position
		}
		// Past the floor one page is all: what two reads show there need not be of one moment.
		if len(events) < feed.PageEvents || after > floor {
			return condition, nil
		}
	}
}

func foldError(e *Event, err error) error {
	return fmt.Errorf("fold event %d of campaign %s (%s): %w", e.Seq, feed.Shortened(e.CampaignID),
		feed.Shortened(e.Type), err)
}

// Load folds all events of a campaign into a state, in order, and returns it with the seq of the last
// one, 0 if there is none: append at [Exactly] that seq, and nothing that the state does not contain has
// got ahead. It is [Decide] for one campaign. Errors of fold come back wrapped; an
// [*UnreadableError] ends it.
func Load[S any](
	ctx context.Context, db Querier, campaignID string, fold func(state *S, e Event) error,
) (state S, seq int64, err error) {
	for e, err := range feed.ReadCampaign(ctx, db, campaignID, 0) {
		if err != nil {
			return state, seq, err
		}
		if err := fold(&state, e); err != nil {
			return state, seq, foldError(&e, err)
		}
		seq = e.Seq
	}
	return state, seq, nil
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
