package feed

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	// FirstSpan is the number of positions of the first window.
	FirstSpan  = 1 << 14
	leastSpan  = 1 << 6
	mostSpan   = 1 << 48
	windowTime = 100 * time.Millisecond // that a window should take, about
)

// Matching reads the events that a query selects up to a position, in windows of positions. However
// rare they are, each window is one short statement, and After tells how far it came. Windows that
// take long get smaller, also after a statement timeout.
type Matching struct {
	Query event.Query
	After int64 // events up to here were read
	Floor int64 // that [Floor] has returned
	Whole bool  // read whole events by [ReadMatches], which needs fewer privileges; only Events of a limit counts

	span int64
	text string
}

// Done reports whether all windows were read.
func (m *Matching) Done() bool { return m.After >= m.Floor }

// Next reads the next window, up to the limits of l. It may have no events though others follow.
func (m *Matching) Next(ctx context.Context, db event.Querier, l List) (events []event.Event, err error) {
	defer rows.Explain(&err, "read the events of a query after position %d", m.After)
	if m.text == "" {
		if err := CheckQuery(m.Query); err != nil {
			return nil, err
		}
		m.text, m.span = string(AppendQuery(nil, m.Query)), FirstSpan
	}
	for !m.Done() {
		until, start := m.Floor, time.Now()
		if m.Floor-m.After > m.span {
			until = m.After + m.span
		}
		events, more, err := m.window(ctx, db, l, until)
		took := time.Since(start)
		if m.span > leastSpan && TimedOut(ctx, db, err) {
			m.span = max(m.span/16, leastSpan)
			continue
		}
		if err != nil {
			return nil, err
		}
		switch {
		case took > windowTime:
			m.span = max(m.span/2, leastSpan)
		case took < windowTime/4:
			m.span = min(m.span*4, mostSpan)
		}
		if m.After = until; more && len(events) > 0 {
			m.After = events[len(events)-1].Position
		}
		return events, nil
	}
	return nil, nil
}

// TimedOut reports whether err is that the server has ended a statement, and db can send a shorter one.
func TimedOut(ctx context.Context, db event.Querier, err error) bool {
	const cancelled = "57014"
	return SQLState(err) == cancelled && ctx.Err() == nil && alone(db)
}

func (m *Matching) window(ctx context.Context, db event.Querier, l List, until int64) ([]event.Event, bool, error) {
	if !m.Whole {
		return l.collect(ctx, db, -1, queryListMatches, m.text, m.After+1, until)
	}
	events, err := collect(ctx, db, queryMatches, m.text, m.After, until, l.Events)
	return events, len(events) == l.Events, err
}

// ListMatches is [ListCampaign] for the events that a query selects, from a position to the writer
// floor. until is the position that it has read up to. It returns [ErrReplaced] if a failover came between.
func ListMatches(
	ctx context.Context, db event.Querier, q event.Query, from int64, l List,
) (events []event.Event, until int64, more bool, err error) {
	if err := CheckQuery(q); err != nil {
		return nil, 0, false, err
	}
	floor, _, instance, err := Progress(ctx, db)
	if err != nil {
		return nil, 0, false, err
	}
	m := Matching{Query: q, After: from - 1, Floor: floor}
	left, begun := l, time.Now()
	if l.Bare {
		left.Bytes = math.MaxInt64
	}
	for first := true; !m.Done() && left.Events > 0 && left.Bytes > 0; first = false {
		if l.Time > 0 && !first && time.Since(begun) > l.Time {
			break
		}
		page, err := m.Next(ctx, db, left)
		if err != nil {
			return nil, 0, false, err
		}
		events = append(events, page...)
		left.Events -= len(page)
		for i := range page {
			left.Bytes -= int64(len(page[i].Payload) + len(page[i].Metadata))
		}
	}
	if present, err := Instance(ctx, db); err != nil || present != instance {
		return nil, 0, false, cmp.Or(err, ErrReplaced)
	}
	return events, m.After, !m.Done(), nil
}

// Read is [journal.Read].
func Read(ctx context.Context, db event.Querier, q event.Query, from int64, limit int) ([]event.Event, error) {
	events, _, _, err := ListMatches(ctx, db, q, from, List{Events: limit, Bytes: math.MaxInt64})
	return events, err
}
