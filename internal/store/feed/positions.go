package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// mostTries bounds how often a read begins anew because events were archived or restored meanwhile.
const mostTries = 5

// readWindow reads events of the journal and of the archive. It returns an empty page only at the floor.
func (t Through) readWindow(ctx context.Context, w Window) (events []Event, until int64, err error) {
	for until = w.After; len(events) == 0 && until < w.Floor; w.After = until {
		if events, until, err = t.readMarked(ctx, w); err != nil {
			return nil, 0, err
		}
	}
	return events, until, nil
}

func (t Through) readMarked(ctx context.Context, w Window) ([]Event, int64, error) {
	mark := int64(0)
	for range mostTries {
		archived, until, known, err := t.Archive.ReadPositions(ctx, t.Querier, mark, w)
		if errors.Is(err, ErrObject) {
			err = &ArchivedError{Err: err}
		}
		if err != nil {
			return nil, 0, err
		}
		events, until, now, err := w.marked(ctx, t.Querier, until)
		if err != nil {
			return nil, 0, err
		}
		if now == known || now == 0 {
			return merge(events, archived, until, w.Events)
		}
		mark = now
	}
	return nil, 0, fmt.Errorf("%w: archives have changed %d times during the read: try again", ErrArchived, mostTries)
}

// marked reads events of the journal alone, stubs among them, and the mark of the archives.
func (w Window) marked(ctx context.Context, db Querier, floor int64) ([]Event, int64, int64, error) {
	query := queryMarkedWindow
	if w.Small {
		query = queryMarkedPage
	}
	w.Floor = floor
	w.Events++ // the mark
	events, until, err := w.read(ctx, db, query, span{stubs: true})
	if err != nil {
		return nil, 0, 0, err
	}
	return events[1:], until, events[0].Seq, nil
}

// merge returns events up to a position. Those of the journal come before archived ones of the same
// position, which were restored.
func merge(events, archived []Event, until int64, most int) ([]Event, int64, error) {
	events = slices.DeleteFunc(events, func(e Event) bool { return e.archived })
	if len(archived) > 0 {
		events = append(events, archived...)
		slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Position, b.Position) })
		events = slices.CompactFunc(events, func(a, b Event) bool { return a.Position == b.Position })
		events = events[:sort.Search(len(events), func(i int) bool { return events[i].Position > until })]
	}
	if len(events) > most {
		events, until = events[:most], events[most-1].Position
	}
	return events, until, nil
}
