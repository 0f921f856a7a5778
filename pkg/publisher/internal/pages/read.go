package pages

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Bytes is how many bytes of payload one read brings, about.
const Bytes = 4 << 20

// Window is what a read brought.
type Window struct {
	Page
	Floor, Last int64
}

// Query says what is read.
type Query struct {
	After     int64
	Floor     int64         // up to which the journal is known to be complete; not beyond After: ask
	Announce  time.Duration // ask appends to notify for so long if there is nothing; 0: do not
	Events    int           // at most
	Small     bool          // events are so small that a page's bytes need not be watched by the server
	Catalogue *journal.Catalogue
}

// Read reads what there is below the writer floor. Before it comes back with nothing it asks to be notified, and looks
// once more at what was appended before that was known.
func Read(ctx context.Context, conn *pgxpool.Conn, q Query) (*Window, error) {
	w, err := q.once(ctx, conn, q.Floor)
	if err != nil || w.Until > q.After || q.Announce == 0 {
		return w, err
	}
	if err = lease.Wait(ctx, conn, q.Announce); err == nil {
		w, err = q.once(ctx, conn, 0)
	}
	return w, err
}

func (q *Query) once(ctx context.Context, conn *pgxpool.Conn, floor int64) (w *Window, err error) {
	w = &Window{Page: Page{After: q.After, Until: q.After}, Floor: floor, Last: floor}
	if q.After >= floor {
		if w.Floor, w.Last, err = feed.Progress(ctx, conn); err != nil || w.Floor <= q.After {
			return w, err
		}
	}
	window := feed.Window{After: q.After, Floor: w.Floor, Events: q.Events, Bytes: Bytes, Small: q.Small}
	if w.Events, w.Until, err = feed.ReadWindow(ctx, conn, window); err != nil {
		return nil, err
	}
	w.Faults = Upcast(q.Catalogue, w.Events)
	return w, nil
}
