package pages

import (
	"testing"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestPagesAreFoundByPositionAndBounded(t *testing.T) {
	t.Parallel()
	c := Cache{limit: 100 * (eventBytes + 2), full: 10}
	for at := int64(0); at < 1000; at += 2 {
		c.Add(&Page{After: at, Until: at + 2, Events: []journal.Event{{Position: at + 2, Payload: []byte("{}")}}})
	}
	if len(c.list) > 11 || c.bytes > c.limit {
		t.Errorf("%d pages of %d bytes are kept", len(c.list), c.bytes)
	}
	if c.At(1000) != nil || c.At(0) != nil {
		t.Error("there are pages for what was not read, or was dropped")
	}
	p := c.At(995)
	if p == nil || p.After > 995 || p.Until < 996 {
		t.Errorf("position 995 is in %+v", p)
	}
	early := p.Events[:1:1]
	c.Add(&Page{After: 1000, Until: 1001, Events: []journal.Event{{Position: 1001}}})
	if early[0].Position != p.Events[0].Position {
		t.Error("adding to a page has changed what its readers have")
	}
}
