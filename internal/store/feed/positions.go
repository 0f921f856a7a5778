package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// mostTries bounds how often a read begins anew because events were archived or restored meanwhile.
const mostTries = 5

// readWindow reads events of the journal and of the archive. It returns an empty page only at the floor,
// which has the instance too.
func (t Through) readWindow(ctx context.Context, w event.Window) (page Page, err error) {
	for first := true; first || len(page.Events) == 0 && page.Until < w.Floor; first = false {
		before := page.Instance
		if page, err = t.readComplete(ctx, w); err != nil {
			return Page{}, err
		}
		if before != "" && before != page.Instance { // what was passed is another journal's
			return Page{}, ErrReplaced
		}
		page.Until = max(page.Until, w.After) // the floor may be lower
		w.After = page.Until
	}
	return page, nil
}

func (t Through) readComplete(ctx context.Context, w event.Window) (page Page, err error) {
	mark := int64(0)
	for range mostTries {
		archived, until, known, err := t.Archive.ReadPositions(ctx, t.Querier, mark, w)
		if errors.Is(err, ErrObject) {
			err = &event.ArchivedError{Err: err}
		}
		if err != nil {
			return page, err
		}
		within := w
		within.Floor = until
		if page, err = readMarked(ctx, t.Querier, within, queryMarkedWindow, queryMarkedPage); err != nil {
			return page, err
		}
		if page.mark == 0 { // nothing is archived there in this instance of the database
			archived = nil
		}
		if page.mark == known || page.mark == 0 {
			page.merge(archived, w.Events)
			return page, nil
		}
		mark = page.mark
	}
	return Page{}, fmt.Errorf("%w: archives have changed %d times during the read: try again", event.ErrArchived,
		mostTries)
}

// merge adds archived events, up to a number of events. Those of the journal come before archived ones
// of the same position, which were restored.
func (p *Page) merge(archived []event.Event, most int) {
	events, until := p.Events, p.Until
	events = slices.DeleteFunc(events, func(e event.Event) bool { return Archived(&e) })
	if len(archived) > 0 {
		events = append(events, archived...)
		slices.SortStableFunc(events, func(a, b event.Event) int { return cmp.Compare(a.Position, b.Position) })
		events = slices.CompactFunc(events, func(a, b event.Event) bool { return a.Position == b.Position })
		events = events[:sort.Search(len(events), func(i int) bool { return events[i].Position > until })]
	}
	if len(events) > most {
		events, until = events[:most], events[most-1].Position
	}
	p.Events, p.Until = events, until
}
