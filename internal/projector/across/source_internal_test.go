package across

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// TestPagesAreKeptForTheSlowestPlace has pages of one event each, and two places.
func TestPagesAreKeptForTheSlowestPlace(t *testing.T) {
	t.Parallel()
	s := newSource(&registry.Base{})
	s.cache, s.instance = pages.NewCache(1<<20, 1), "i"
	for at := range int64(5) {
		s.cache.Add(&pages.Page{After: at, Until: at + 1, Events: []event.Event{{Position: at + 1}}})
	}
	first, second := &place{instance: "i"}, &place{instance: "i"}
	for _, step := range []struct {
		of      *place
		read    int64
		leaves  *place
		dropped int64 // all pages up to here
	}{
		{of: first, read: 0, dropped: 0},
		{of: second, read: 2, dropped: 0},
		{of: first, read: 1, dropped: 1},
		{of: first, read: 4, dropped: 2},
		{of: first, read: 4, leaves: second, dropped: 4},
	} {
		if step.leaves != nil {
			s.leave(step.leaves)
		}
		step.of.read = step.read
		page, _, err := s.next(t.Context(), step.of)
		if err != nil || page == nil || page.After != step.read {
			t.Fatalf("after %d there is the page %+v, %v", step.read, page, err)
		}
		for at := range int64(5) {
			if kept := s.cache.At(at) != nil; kept != (at >= step.dropped) {
				t.Errorf("a place is at %d: the page after %d is kept: %t", step.read, at, kept)
			}
		}
	}
}
