package journal

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// mostSeen limits a decision's events past the writer floor; the next attempt reads those beyond.
const mostSeen = 256

// Model is a decision model: the state that a query's events fold into. [NewModel] makes one and
// [DecideAll] brings it up to date.
type Model[S any] struct {
	State S // the folded state, after DecideAll

	query event.Query
	fold  func(*S, event.Event) error
}

// NewModel returns a model of the events that q selects. Its state starts as the zero value of S.
// fold adds one event to it and may return an error to end the read.
func NewModel[S any](q event.Query, fold func(state *S, e event.Event) error) *Model[S] {
	return &Model[S]{query: q, fold: fold}
}

// Folder is a [*Model] of any state type.
type Folder interface {
	selects() event.Query
	begin()
	add(e event.Event) error
}

func (m *Model[S]) selects() event.Query { return m.query }

func (m *Model[S]) begin() { m.State = *new(S) }

func (m *Model[S]) add(e event.Event) error { return m.fold(&m.State, e) }

// Decide folds the events that q selects, in order of position, and returns the state and the
// condition to append with: no event that q selects was added that the state does not contain.
// Errors of fold are returned wrapped.
//
// It reads outside the append's transaction, or inside it under READ COMMITTED. Under REPEATABLE
// READ and SERIALIZABLE it is refused. It does not wait for appends in flight: if q selects one of
// their events, the condition fails.
func Decide[S any](
	ctx context.Context, db event.Querier, q event.Query, fold func(state *S, e event.Event) error,
) (S, Condition, error) {
	m := NewModel(q, fold)
	condition, err := DecideAll(ctx, db, m)
	return m.State, condition, err
}

// DecideAll brings several models up to date in one read, each with its own query's events, and returns
// one condition to append with. The states are of the same moment. A reused model starts over.
func DecideAll(ctx context.Context, db event.Querier, models ...Folder) (Condition, error) {
	if len(models) == 0 {
		return Condition{}, fmt.Errorf("decide: there are no models: name at least one")
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
	until := int64(math.MaxInt64)
	if untagged(union) {
		until = feed.FirstSpan
	}
	floor, history, events, err := feed.ReadFirst(ctx, db, query, until)
	if feed.TimedOut(ctx, db, err) { // few events have all tags of an item, or the server is slow
		until = 0
		floor, history, events, err = feed.ReadFirst(ctx, db, query, until)
	}
	if err == nil && floor > until {
		m := feed.Matching{Query: union, After: until, Floor: floor, Whole: true}
		if err = addWindows(ctx, db, models, &m, events); err == nil {
			events, err = feed.ReadMatches(ctx, db, query, floor, math.MaxInt64, feed.PageEvents)
		}
	}
	if err != nil {
		return Condition{}, err
	}
	condition := Condition{FailIfMatch: union, After: floor, History: history}
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
		// Stop after one page past the floor: two reads there may see different moments.
		if len(events) < feed.PageEvents || after > floor {
			return condition, nil
		}
	}
}

// untagged reports whether a part of the query selects by types alone. No index has those, so rare events
// of a long journal need several statements.
func untagged(q event.Query) bool {
	return slices.ContainsFunc(q.Items, func(i event.Item) bool { return len(i.Tags) == 0 && len(i.Types) > 0 })
}

// addWindows folds the first page of the first window, and then all windows of m.
func addWindows(
	ctx context.Context, db event.Querier, models []Folder, m *feed.Matching, events []event.Event,
) (err error) {
	if n := len(events); n == feed.PageEvents {
		m.After = events[n-1].Position
	}
	for {
		for i := range events {
			if err := addTo(models, events[i]); err != nil {
				return foldError(&events[i], err)
			}
		}
		if m.Done() {
			return nil
		}
		if events, err = m.Next(ctx, db, feed.List{Events: feed.PageEvents}); err != nil {
			return err
		}
	}
}

func foldError(e *event.Event, err error) error {
	return fmt.Errorf("fold event %d of campaign %s (%s): %w", e.Seq, text.Shortened(e.CampaignID),
		text.Shortened(e.Type), err)
}

// Load folds all events of a campaign into a state, in order, and returns it with the last seq, 0
// if there are no events. Append at [Exactly] that seq to be sure that the state is complete. Load
// is [Decide] for one campaign. Errors of fold are returned wrapped; an [*event.UnreadableError] ends it.
func Load[S any](
	ctx context.Context, db event.Querier, campaignID string, fold func(state *S, e event.Event) error,
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

// addTo folds the event into the models that select it.
func addTo(models []Folder, e event.Event) error {
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
