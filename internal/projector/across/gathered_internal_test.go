package across

import (
	"testing"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// TestEventsBelowAPositionAreCountedOnAllPages counts from the middle of one page to the middle of
// another.
func TestEventsBelowAPositionAreCountedOnAllPages(t *testing.T) {
	t.Parallel()
	var want passing
	g := gathered{pages: []*pages.Page{{After: 0, Until: 10}, {After: 10, Until: 20}, {After: 20, Until: 30}}}
	for i, page := range g.pages {
		for position := int64(10*i + 2); position <= page.Until; position += 2 {
			e := event.Event{ID: uuid.New(), Position: position}
			if page.Events = append(page.Events, e); position > 4 && position < 26 {
				want.pass(&e)
			}
		}
	}
	if got := g.passedBelow(4, 26); got != want || got.n != 10 {
		t.Errorf("%d events with the hash %x, want 10 with %x", got.n, got.hash, want.hash)
	}
}
