// Package pages reads the journal page by page and caches the latest pages.
package pages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Page is all events of the journal with After < position <= Until.
type Page struct {
	After, Until int64
	Events       []event.Event
	Faults       map[int64]error // by position: events that the catalogue cannot read
	Notices      Notices
	Notes        *sync.Map // what readers note about the events; see [Cache.Noted]
	bytes        int64
}

// Index returns the index of the first event behind a position.
func (p *Page) Index(position int64) int {
	return sort.Search(len(p.Events), func(i int) bool { return p.Events[i].Position > position })
}

// Payload returns the bytes of payloads and metadata.
func (p *Page) Payload() (bytes int64) {
	for i := range p.Events {
		bytes += int64(len(p.Events[i].Payload) + len(p.Events[i].Metadata))
	}
	return bytes
}

// Upcast brings events to their current version. It returns the errors of unreadable ones by position.
func Upcast(types *catalogue.Catalogue, events []event.Event) (faults map[int64]error) {
	for i := range events {
		if types == nil && events[i].Unreadable() == nil {
			continue
		}
		current, err := types.Current(events[i])
		if events[i] = current; err != nil {
			if faults == nil {
				faults = map[int64]error{}
			}
			faults[current.Position] = redact.Wrap(err, &current)
		}
	}
	return faults
}

// Open opens the sealed fields of events, and brings them to their current version as [Upcast] does.
func Open(
	ctx context.Context, db event.Querier, types *catalogue.Catalogue, events []event.Event,
) (faults map[int64]error, err error) {
	closed, err := types.Open(ctx, db, events)
	if err != nil {
		return nil, err
	}
	if faults = Upcast(types, events); len(closed) > 0 {
		maps.Copy(closed, faults)
		return closed, nil
	}
	return faults, nil
}

// Cache is the latest pages, oldest first.
type Cache struct {
	list  []*Page
	bytes int64
	limit int64
	full  int // events of a page that is not extended; nor is one of [Bytes]

	erased int64 // see Forget
}

// NewCache returns a cache of about limit bytes. Pages with full events are not extended.
func NewCache(limit int64, full int) Cache { return Cache{limit: limit, full: full} }

// Drop drops all pages: the journal was replaced.
func (c *Cache) Drop() { c.list, c.bytes = nil, 0 }

// Forget drops all pages if events have been erased since the last call: the mark, which is
// [feed.Erased], has grown. It reports whether it has. A page whose read began before must not be added.
func (c *Cache) Forget(mark int64) (erased bool) {
	if erased = c.erased != mark; erased {
		c.Drop()
		c.erased = mark
	}
	return erased
}

// Mark returns the mark of the last [Cache.Forget].
func (c *Cache) Mark() int64 { return c.erased }

// At returns the page that continues after a position, or nil.
func (c *Cache) At(position int64) *Page {
	for i := len(c.list) - 1; i >= 0; i-- {
		if p := c.list[i]; p.After <= position && position < p.Until {
			return p
		}
	}
	return nil
}

// Add keeps a page. A page that continues the last one is appended to it, because few events come
// at a time at the journal's end. Readers hold slices of the earlier events, which do not change.
func (c *Cache) Add(p *Page) {
	if p.Until <= p.After {
		return
	}
	p.bytes = eventBytes*int64(len(p.Events)) + p.Payload()
	c.bytes += p.bytes
	if n := len(c.list); n > 0 {
		if last := c.list[n-1]; last.Until == p.After && len(last.Events)+len(p.Events) <= c.full &&
			last.bytes+p.bytes <= Bytes {
			if last.Faults == nil {
				last.Faults = p.Faults
			} else {
				maps.Copy(last.Faults, p.Faults)
			}
			if last.Notices == nil {
				last.Notices = p.Notices
			} else {
				maps.Copy(last.Notices, p.Notices)
			}
			last.Events, last.Until, last.bytes = append(last.Events, p.Events...), p.Until, last.bytes+p.bytes
			c.trim()
			return
		}
	}
	c.list = append(c.list, p)
	c.trim()
}

// Noted counts bytes that a reader has noted about the events of a page.
func (c *Cache) Noted(p *Page, bytes int64) {
	for i := len(c.list) - 1; i >= 0; i-- {
		if c.list[i].Notes == p.Notes {
			c.list[i].bytes += bytes
			c.bytes += bytes
			c.trim()
			return
		}
	}
}

// Ahead returns where up to n pages in memory end that continue after a position. next reports whether
// to read the page that follows: there are fewer, and it has room beside them.
func (c *Cache) Ahead(position int64, n int) (until int64, next bool) {
	var bytes, found int64
	until = position
	for page := c.At(until); page != nil && found < int64(n); page = c.At(until) {
		bytes, found, until = bytes+page.bytes, found+1, page.Until
	}
	return until, found > 0 && c.At(until) == nil && bytes+bytes/found <= c.limit
}

// Roomy reports whether less than half of the limit is used.
func (c *Cache) Roomy() bool { return c.bytes < c.limit/2 }

func (c *Cache) trim() {
	drop := 0
	for drop < len(c.list)-1 && (c.bytes > c.limit || len(c.list)-drop > maxPages) {
		c.bytes -= c.list[drop].bytes
		drop++
	}
	c.list = slices.Delete(c.list, 0, drop)
}

const (
	// eventBytes is about the size of an event without payload and metadata.
	eventBytes = 400
	maxPages   = 256
)

// Bytes is about how many bytes of payload one read fetches.
const Bytes = 4 << 20

// Window is the result of [Read].
type Window struct {
	Page
	Floor, Last int64
	Instance    string // of the database that the events and the floor are from
}

// Query selects what [Read] reads.
type Query struct {
	After     int64
	Floor     int64         // up to which the journal is known to be complete; if not beyond After, Read reads it
	Instance  string        // of the database that Floor was read from
	Announce  time.Duration // ask appends to notify for this long if there is nothing; 0: do not
	Events    int           // at most
	Small     bool          // events are so small that the server need not limit a page's bytes
	Catalogue *catalogue.Catalogue
	Archive   event.Archive // reads archived events; nil: they are an error
	Limit     time.Duration // of the read on the server; 0: that of the session; see [ReadPage]
	Sealed    bool          // leave sealed fields as they are
}

// Read reads the next events below the writer floor. If there are none it asks to be notified, and
// then looks once more for events appended before appenders knew. It returns [feed.ErrReplaced] if the
// events are from another instance than the floor: below it, appends may be in flight.
func Read(ctx context.Context, conn DB, q Query) (*Window, error) {
	w, err := q.once(ctx, conn, q.Floor)
	if err != nil || w.Until > q.After || q.Announce == 0 {
		return w, err
	}
	if err = lease.Wait(ctx, conn, q.Announce); err == nil {
		w, err = q.once(ctx, conn, 0)
	}
	return w, err
}

// Pass returns a window without events that ends with the next event below the writer floor.
func Pass(ctx context.Context, conn DB, after int64) (*Window, error) {
	w := &Window{Page: Page{After: after, Until: after}}
	var err error
	if w.Floor, w.Last, w.Instance, err = feed.Progress(ctx, conn); err != nil || w.Floor <= after {
		return w, err
	}
	if err = conn.QueryRow(ctx, queryNextPosition, after, w.Floor).Scan(&w.Until); err != nil {
		return nil, fmt.Errorf("pass the event after position %d: %w", after, err)
	}
	return w, nil
}

func (q *Query) once(ctx context.Context, conn DB, floor int64) (w *Window, err error) {
	w = &Window{
		Page: Page{After: q.After, Until: q.After, Notes: &sync.Map{}}, Floor: floor, Last: floor, Instance: q.Instance,
	}
	if q.After >= floor {
		if w.Floor, w.Last, w.Instance, err = feed.Progress(ctx, conn); err != nil || w.Floor <= q.After {
			return w, err
		}
	}
	window := event.Window{After: q.After, Floor: w.Floor, Events: q.Events, Bytes: Bytes, Small: q.Small}
	page, err := ReadPage(ctx, conn, q.Archive, window, q.Limit)
	if err != nil {
		return nil, err
	}
	if page.Instance != w.Instance {
		return nil, feed.ErrReplaced
	}
	w.Events, w.Until = page.Events, page.Until
	if q.Sealed {
		w.Faults = Upcast(q.Catalogue, w.Events)
	} else if w.Faults, err = Open(ctx, conn, q.Catalogue, w.Events); err != nil {
		return nil, err
	}
	return w, nil
}
