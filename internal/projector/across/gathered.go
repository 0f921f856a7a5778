package across

import (
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// passing counts events of the journal on the way to the next place.
type passing struct{ n, hash int64 }

func (m *passing) pass(e *event.Event) {
	m.n++
	m.hash ^= feed.IDHash(e.ID)
}

// gathered is the next events that the projection wants, from one page or several.
type gathered struct {
	events []apply.Keyed
	pages  []*pages.Page
	until  int64 // events up to here are passed
	passed passing
	full   bool
}

// gather adds the events of a page up to a limit, each for all of its keys here that are not behind.
func (p *place) gather(g *gathered, page *pages.Page, limit int64) {
	var known found
	if p.parts > 1 && p.marks == 0 { // a key of a suspect event is found only when its turn comes
		known = p.source.keyed(p.k, page)
	}
	var pairs []apply.Keyed // of the event
	first := page.Index(g.until)
	g.pages, g.until = append(g.pages, page), min(page.Until, limit)
	for i := first; i < len(page.Events); i++ {
		e := &page.Events[i]
		if e.Position > g.until {
			break
		}
		if g.full = len(g.events) >= p.size || p.marks > 0 && len(g.events) > 0; g.full {
			g.until = e.Position - 1
			break
		}
		if known.ends != nil {
			pairs = append(pairs[:0], known.of(i)...)
		}
		if known.ends == nil || len(pairs) > 0 && pairs[0].Fault != nil { // after a fault perhaps a key is found now
			pairs = apply.AppendKeyed(pairs[:0], p.k, e, page.Faults[e.Position])
		}
		for _, one := range pairs {
			ok := p.takes(&one)
			if !ok && one.Fault != nil && one.Key == projection.AllKeys && !p.k.Skips(e.Type, one.Fault) {
				// Its key may belong here: another partition holds it back, and this one waits for the outcome.
				g.until, g.full = e.Position-1, true
				return
			}
			if _, behind := p.held[one.Key]; ok && !behind {
				g.events = append(g.events, one)
			}
		}
		g.passed.pass(e)
	}
}

// passedBelow counts the events between a place and a position.
func (g *gathered) passedBelow(place, at int64) (m passing) {
	for _, page := range g.pages {
		for i := page.Index(place); i < len(page.Events) && page.Events[i].Position < at; i++ {
			m.pass(&page.Events[i])
		}
	}
	return m
}
