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
	beside       int64     // bytes in memory beside the events: of their payloads, and of notes
	room         []byte    // for the payloads of pages that extend this one
}

// size returns about how many bytes the page takes in memory, with the room for events that it may be
// extended by.
func (p *Page) size() int64 { return eventBytes*int64(cap(p.Events)) + p.beside }

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
		e := &events[i]
		if types == nil && e.Unreadable() == nil {
			continue
		}
		var err error
		if *e, err = types.Current(*e); err != nil {
			if faults == nil {
				faults = map[int64]error{}
			}
			faults[e.Position] = redact.Wrap(err, e)
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

// Passed drops the pages that all readers have passed, up to a position, but for the last, which is extended.
func (c *Cache) Passed(position int64) {
	drop := 0
	for drop < len(c.list)-1 && c.list[drop].Until <= position {
		drop++
	}
	c.drop(drop)
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
	p.beside = p.Payload()
	if last := c.extended(p); last != nil {
		c.bytes -= last.size()
		last.extend(p)
		c.bytes += last.size()
	} else {
		c.list = append(c.list, p)
		c.bytes += p.size()
	}
	c.trim()
}

// extended returns the page that p is appended to, or nil.
func (c *Cache) extended(p *Page) *Page {
	if len(c.list) == 0 {
		return nil
	}
	last := c.list[len(c.list)-1]
	if last.Until != p.After || len(last.Events)+len(p.Events) > c.full || last.size()+p.size() > Bytes {
		return nil
	}
	return last
}

// extend appends the page that follows. It copies the payloads: a read of few events leaves room behind
// them that would be kept as long.
func (p *Page) extend(next *Page) {
	if p.Faults == nil {
		p.Faults = next.Faults
	} else {
		maps.Copy(p.Faults, next.Faults)
	}
	if p.Notices == nil {
		p.Notices = next.Notices
	} else {
		maps.Copy(p.Notices, next.Notices)
	}
	n := len(p.Events)
	p.Events, p.Until, p.beside = append(p.Events, next.Events...), next.Until, p.beside+next.beside
	for i := n; i < len(p.Events); i++ {
		p.Events[i].Payload, p.Events[i].Metadata = p.keep(p.Events[i].Payload), p.keep(p.Events[i].Metadata)
	}
}

// keep copies a payload into the page's room.
func (p *Page) keep(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	if len(b) > cap(p.room)-len(p.room) {
		p.room = make([]byte, 0, max(roomBytes, len(b)))
	}
	start := len(p.room)
	p.room = append(p.room, b...)
	return p.room[start:len(p.room):len(p.room)]
}

// Noted counts bytes that a reader has noted about the events of a page.
func (c *Cache) Noted(p *Page, bytes int64) {
	for i := len(c.list) - 1; i >= 0; i-- {
		if c.list[i].Notes == p.Notes {
			c.list[i].beside += bytes
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
		bytes, found, until = bytes+page.size(), found+1, page.Until
	}
	return until, found > 0 && c.At(until) == nil && bytes+bytes/found <= c.limit
}

// Roomy reports whether less than half of the limit is used.
func (c *Cache) Roomy() bool { return c.bytes < c.limit/2 }

// trim drops the oldest pages while there are too many.
func (c *Cache) trim() {
	drop, bytes := 0, c.bytes
	for drop < len(c.list)-1 && (bytes > c.limit || len(c.list)-drop > maxPages) {
		bytes -= c.list[drop].size()
		drop++
	}
	c.drop(drop)
}

// drop drops the first n pages.
func (c *Cache) drop(n int) {
	for _, p := range c.list[:n] {
		c.bytes -= p.size()
	}
	c.list = slices.Delete(c.list, 0, n)
}

const (
	// eventBytes is about the size of an event without payload and metadata: the struct, its own strings and tags, and
	// the place of its decoded payload.
	eventBytes = 400
	maxPages   = 256
	roomBytes  = 8 << 10
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
