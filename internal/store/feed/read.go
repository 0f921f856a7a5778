package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Limits of one page in memory: events, and about as many bytes of payload and metadata.
const (
	PageEvents = 500
	pageBytes  = 4 << 20
)

// Opening is a Querier whose events are read with their sealed fields open.
type Opening struct {
	event.Querier
	Open func(ctx context.Context, db event.Querier, events []event.Event) error
}

// ReadCampaign is [journal.ReadCampaign].
func ReadCampaign(
	ctx context.Context, db event.Querier, campaignID string, afterSeq int64,
) iter.Seq2[event.Event, error] {
	return pages(func() ([]event.Event, error) {
		page := span{after: afterSeq, events: PageEvents, bytes: pageBytes}
		events, _, err := collectSome(ctx, db, 0, math.MaxInt64, page, queryCampaignPage, campaignID, afterSeq, PageEvents,
			pageBytes)
		if err != nil {
			return nil, fmt.Errorf("read campaign %q after seq %d: %w", campaignID, afterSeq, err)
		}
		if len(events) > 0 {
			afterSeq = events[len(events)-1].Seq
		}
		return events, nil
	})
}

// ReadAll is [journal.ReadAll].
func ReadAll(ctx context.Context, db event.Querier, after event.Cursor) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		start, err := Resume(ctx, db, after)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		pages(func() ([]event.Event, error) { return start.next(ctx, db) })(yield)
	}
}

// next reads the next page. In another history than before it goes on where the two are the same.
func (s *Start) next(ctx context.Context, db event.Querier) ([]event.Event, error) {
	for range mostTries {
		window := event.Window{After: s.Position, Floor: s.Floor, Events: PageEvents, Bytes: pageBytes}
		page, err := ReadPage(ctx, db, window)
		if err == nil && page.Instance == s.Instance {
			s.Position = page.Until
			return page.Events, nil
		}
		if err != nil && !errors.Is(err, ErrReplaced) {
			return nil, err
		}
		floor := s.Floor
		if *s, err = Resume(ctx, db, s.Cursor); err != nil {
			return nil, err
		}
		s.Floor = min(s.Floor, floor)
	}
	return nil, ErrReplaced
}

// Floor returns the highest position up to which the journal is complete: a statement sent after Floor
// returns sees every event that will ever have a position up to it. Only open appends hold it back.
func Floor(ctx context.Context, db event.Querier) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "read the writer floor", queryFloor)
}

// Get is [journal.Get].
func Get(ctx context.Context, db event.Querier, campaignID string, seq int64) (event.Event, error) {
	what := fmt.Sprintf("event %d of campaign %q", seq, campaignID)
	s := span{after: seq - 1, events: 1, bytes: 1}
	events, _, err := collectSome(ctx, db, 0, math.MaxInt64, s, queryGet, campaignID, seq)
	if len(events) > 0 && events[0].Seq != seq { // a later event, because there is none with this seq
		events = nil
	}
	return only(events, what, err)
}

// At returns the event at a position, or [event.ErrNotFound].
func At(ctx context.Context, db event.Querier, position int64) (event.Event, error) {
	events, _, err := ReadWindow(ctx, db, event.Window{
		After: position - 1, Floor: position, Events: 1, Bytes: math.MaxInt64, Small: true,
	})
	return only(events, fmt.Sprintf("event at position %d", position), err)
}

// Find is [journal.Find].
func Find(ctx context.Context, db event.Querier, campaignID string, id uuid.UUID) (event.Event, error) {
	what := fmt.Sprintf("event %s of campaign %q", id, campaignID)
	e, err := one(ctx, db, what, queryFind, campaignID, id.String())
	if !errors.Is(err, event.ErrNotFound) {
		return e, err
	}
	if head, headErr := Head(ctx, db, campaignID); headErr != nil || !Archived(&head) {
		return e, err
	}
	for e, err := range ReadCampaign(ctx, db, campaignID, 0) {
		if err != nil || e.ID == id {
			return e, err
		}
	}
	return e, err
}

func one(ctx context.Context, db event.Querier, what, query string, args ...any) (_ event.Event, err error) {
	events, err := collect(ctx, db, query, args...)
	return only(events, what, err)
}

func only(events []event.Event, what string, readErr error) (_ event.Event, err error) {
	defer rows.Explain(&err, "%s", what)
	switch {
	case readErr != nil:
		return event.Event{}, readErr
	case len(events) == 0:
		return event.Event{}, event.ErrNotFound
	}
	return events[0], events[0].Unreadable()
}

// pages flattens pages. A page without events is the end.
func pages(next func() ([]event.Event, error)) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for {
			events, err := next()
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, e := range events {
				if err := e.Unreadable(); err != nil {
					yield(e, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			if len(events) == 0 {
				return
			}
		}
	}
}

func collect(ctx context.Context, db event.Querier, query string, args ...any) ([]event.Event, error) {
	events, _, err := collectSome(ctx, db, 0, math.MaxInt64, span{}, query, args...)
	return events, err
}

// collectSome runs a query and reads its rows with collectBytes. If an event's content makes that fail, it
// reads again without the documents of that event. Stubs are replaced by the events that they stand for.
func collectSome(
	ctx context.Context, db event.Querier, expected int, limit int64, s span, query string, args ...any,
) (events []event.Event, size int64, err error) {
	if opening, ok := db.(Opening); ok {
		if events, size, err = collectSome(ctx, opening.Querier, expected, limit, s, query, args...); err == nil {
			err = opening.Open(ctx, opening.Querier, events)
		}
		return events, size, err
	}
	rows, err := db.Query(ctx, query, args...)
	if err == nil {
		events, size, err = collectBytes(rows, expected, limit)
	}
	if err == nil {
		return s.fill(ctx, archiveOf(db), events, size)
	}
	if !CannotRead(err) {
		return events, size, archivedBy(err)
	}
	again, againErr := db.Query(ctx, careful(query), args...)
	if againErr == nil {
		events, size, againErr = collectBytes(again, expected, limit)
	}
	if againErr != nil { // e.g. in a transaction, which the first error has ended
		return nil, 0, err
	}
	return s.fill(ctx, archiveOf(db), events, size)
}

// collectBytes reads rows of eventColumns until payload and metadata reach limit bytes, and at
// least one event. It discards the remaining rows. expected is the likely number of events.
func collectBytes(rows pgx.Rows, expected int, limit int64) (events []event.Event, size int64, err error) {
	_, size, err = eachEvent(rows, limit, campaignFirst(func(e *event.Event, _ int) {
		if events == nil {
			events = make([]event.Event, 0, max(expected, 1))
		}
		events = append(events, *e)
	}))
	if err != nil {
		return nil, 0, err
	}
	return events, size, nil
}

// columns is what differs between reads. take completes the event and returns its size.
type columns struct {
	before int // how many columns come before seq
	take   func(r *rowReader, raw [][]byte, e *event.Event) (size int64, err error)
}

// campaignFirst reads rows of eventColumns.
func campaignFirst(visit func(e *event.Event, bytes int)) columns {
	campaign := ""
	return columns{1, func(_ *rowReader, raw [][]byte, e *event.Event) (int64, error) {
		if string(raw[0]) != campaign { // consecutive rows often have the same campaign
			campaign = string(raw[0])
		}
		e.CampaignID = campaign
		bytes := len(e.Payload) + len(e.Metadata)
		visit(e, bytes)
		return int64(bytes), nil
	}}
}

// eachEvent reads events until they reach limit bytes, and at least one. n counts all rows.
func eachEvent(rows pgx.Rows, limit int64, c columns) (n int, size int64, err error) {
	defer rows.Close()
	if err := rows.Err(); err != nil { // a broken connection leaves no description
		return 0, 0, err
	}
	if err := CheckEncoding(rows.Conn()); err != nil {
		return 0, 0, err
	}
	r := newRowReader(rows, c.before)
	var e event.Event
	for rows.Next() {
		if n++; size >= limit {
			continue
		}
		raw := rows.RawValues()
		e = event.Event{}
		if err := r.event(&e, raw[c.before:]); err != nil {
			return n, size, err
		}
		bytes, err := c.take(r, raw, &e)
		if err != nil {
			return n, size, err
		}
		size += bytes
	}
	return n, size, rows.Err()
}

// ReadWindow reads events in order of position. until is the position it read up to: Floor, unless
// a limit ended it earlier. With an [event.Archive] it reads archived events too, twice as many bytes at most.
func ReadWindow(ctx context.Context, db event.Querier, w event.Window) (events []event.Event, until int64, err error) {
	page, err := ReadPage(ctx, db, w)
	return page.Events, page.Until, err
}

// Page is the result of [ReadPage].
type Page struct {
	Events   []event.Event
	Until    int64  // see [ReadWindow]
	Instance string // of the database that the events are from; "": its history has not begun
	mark     int64  // tidemark.archive_mark
}

// ReadPage is [ReadWindow] that tells which instance of the database the events are from.
func ReadPage(ctx context.Context, db event.Querier, w event.Window) (page Page, err error) {
	defer rows.Explain(&err, "read journal after position %d", w.After)
	switch db := db.(type) {
	case Opening:
		if page, err = ReadPage(ctx, db.Querier, w); err == nil {
			err = db.Open(ctx, db.Querier, page.Events)
		}
		return page, err
	case Through:
		if db.Archive != nil {
			return db.readWindow(ctx, w)
		}
	}
	if page, err = readMarked(ctx, db, w, queryWindow, queryJournalPage); err != nil {
		return page, err
	}
	page.merge(nil, w.Events)
	return page, nil
}

// readMarked reads events of the journal alone, stubs among them, behind their mark.
func readMarked(
	ctx context.Context, db event.Querier, w event.Window, query, small string,
) (page Page, err error) {
	if w.Small {
		query = small
	}
	events, until, err := read(ctx, db, w, query, span{stubs: true})
	if err != nil {
		return page, err
	}
	return Page{Events: events[1:], Until: until, Instance: events[0].CampaignID, mark: events[0].Seq}, nil
}

func read(
	ctx context.Context, db event.Querier, w event.Window, query string, s span,
) (events []event.Event, until int64, err error) {
	args := []any{w.After, w.Floor, w.Events, w.Bytes}
	if w.Small {
		args = args[:3]
	}
	if w.Careful {
		query = careful(query)
	}
	expected := min(int64(w.Events), w.Floor-w.After) + 1 // the mark
	events, size, err := collectSome(ctx, db, int(expected), w.Bytes, s, query, args...)
	if err != nil {
		return nil, 0, err
	}
	cut := w.Small && size >= w.Bytes || !w.Small && cutShort(size, w.Bytes)
	if n := len(events); n > 0 && (n > w.Events || cut) {
		return events, events[n-1].Position, nil
	}
	return events, w.Floor, nil
}
