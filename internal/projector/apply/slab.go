package apply

import (
	"sync"

	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// slabs keeps the memory of groups' events and statements for the groups that follow. Payloads are
// not reused: who keeps a copy of an event keeps what it points to.
type slabs struct{ events, origins sync.Pool }

// slabEvents is the size of a new slab, at most.
const slabEvents = 1024

// get returns an empty slice for about n events.
func (s *slabs) get(n int) []journal.Event {
	if slab, ok := s.events.Get().(*[]journal.Event); ok {
		return (*slab)[:0]
	}
	return make([]journal.Event, 0, min(n, slabEvents))
}

func (s *slabs) put(slab []journal.Event) {
	clear(slab)
	s.events.Put(&slab)
}

func (s *slabs) getOrigins() []pipeline.Origin {
	if o, ok := s.origins.Get().(*[]pipeline.Origin); ok {
		return (*o)[:0]
	}
	return nil
}

func (s *slabs) putOrigins(o []pipeline.Origin) {
	clear(o[:cap(o)])
	s.origins.Put(&o)
}
