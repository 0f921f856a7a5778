// Package pages reads the journal page by page, and keeps the pages that were read last.
package pages

import (
	"maps"
	"slices"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Page is all events of the journal after one position up to another.
type Page struct {
	After, Until int64
	Events       []journal.Event
	Faults       map[int64]error // by position: what the catalogue cannot read
	bytes        int64
}

// Payload is how many bytes payloads and metadata have.
func (p *Page) Payload() (bytes int64) {
	for i := range p.Events {
		bytes += int64(len(p.Events[i].Payload) + len(p.Events[i].Metadata))
	}
	return bytes
}

// Upcast brings events to their current version, and answers those that the catalogue cannot read, by position.
func Upcast(catalogue *journal.Catalogue, events []journal.Event) (faults map[int64]error) {
	for i := range events {
		if catalogue == nil && events[i].Unreadable() == nil {
			continue
		}
		current, err := catalogue.Current(events[i])
		if events[i] = current; err != nil {
			if faults == nil {
				faults = map[int64]error{}
			}
			faults[current.Position] = redact.Wrap(err, &current)
		}
	}
	return faults
}

// Cache is the pages that were read of late, oldest first.
type Cache struct {
	list  []*Page
	bytes int64
	limit int64
	full  int // events of a page that is not added to
}

// NewCache returns a cache of about so many bytes. A page with full events is not added to.
func NewCache(limit int64, full int) Cache { return Cache{limit: limit, full: full} }

// At answers the page that goes on after a position, or nil.
func (c *Cache) At(position int64) *Page {
	for i := len(c.list) - 1; i >= 0; i-- {
		if p := c.list[i]; p.After <= position && position < p.Until {
			return p
		}
	}
	return nil
}

// Add keeps a page. One that goes on where the last one ended is put at its end, since few events
// come at a time where the journal ends. Readers hold slices of what was there before, which stays
// as it is.
func (c *Cache) Add(p *Page) {
	if p.Until <= p.After {
		return
	}
	p.bytes = eventBytes*int64(len(p.Events)) + p.Payload()
	c.bytes += p.bytes
	if n := len(c.list); n > 0 {
		if last := c.list[n-1]; last.Until == p.After && len(last.Events)+len(p.Events) <= c.full {
			if last.Faults == nil {
				last.Faults = p.Faults
			} else {
				maps.Copy(last.Faults, p.Faults)
			}
			last.Events, last.Until, last.bytes = append(last.Events, p.Events...), p.Until, last.bytes+p.bytes
			c.trim()
			return
		}
	}
	c.list = append(c.list, p)
	c.trim()
}

// Roomy says that less than half of what may be kept is.
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
	// eventBytes is about what an event takes besides its payload and metadata.
	eventBytes = 400
	maxPages   = 256
)
