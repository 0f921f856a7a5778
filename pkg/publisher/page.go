package publisher

import (
	"maps"
	"slices"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// page is all events of the journal after one position up to another.
type page struct {
	after, until int64
	events       []journal.Event
	faults       map[int64]error // by position: what the catalogue cannot read
	bytes        int64
}

// payload is how many bytes payloads and metadata have.
func (p *page) payload() (bytes int64) {
	for i := range p.events {
		bytes += int64(len(p.events[i].Payload) + len(p.events[i].Metadata))
	}
	return bytes
}

// upcast brings events to their current version, and answers those that the catalogue cannot read, by position.
func upcast(catalogue *journal.Catalogue, events []journal.Event) (faults map[int64]error) {
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

// pages are what was read of late, oldest first.
type pages struct {
	list  []*page
	bytes int64
	limit int64
	full  int // events of a page that is not added to
}

// at answers the page that goes on after a position, or nil.
func (c *pages) at(position int64) *page {
	for i := len(c.list) - 1; i >= 0; i-- {
		if p := c.list[i]; p.after <= position && position < p.until {
			return p
		}
	}
	return nil
}

// add keeps a page. One that goes on where the last one ended is put at its end, since few events come at a time where the journal ends. Readers hold
// slices of what was there before, which stays as it is.
func (c *pages) add(p *page) {
	if p.until <= p.after {
		return
	}
	p.bytes = eventBytes*int64(len(p.events)) + p.payload()
	c.bytes += p.bytes
	if n := len(c.list); n > 0 {
		if last := c.list[n-1]; last.until == p.after && len(last.events)+len(p.events) <= c.full {
			if last.faults == nil {
				last.faults = p.faults
			} else {
				maps.Copy(last.faults, p.faults)
			}
			last.events, last.until, last.bytes = append(last.events, p.events...), p.until, last.bytes+p.bytes
			c.trim()
			return
		}
	}
	c.list = append(c.list, p)
	c.trim()
}

func (c *pages) trim() {
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
