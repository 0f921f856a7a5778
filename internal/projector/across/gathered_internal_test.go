package across

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
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

// TestAGroupTakesAllKeysOfAnEventOrNone has events of three keys, in groups of four events at most.
func TestAGroupTakesAllKeysOfAnEventOrNone(t *testing.T) {
	t.Parallel()
	k := &registry.Projection{Keys: func(e event.Event) ([]string, error) { return strings.Fields(e.Actor), nil }}
	page := &pages.Page{Until: 50, Notes: new(sync.Map)}
	for position := int64(10); position < 50; position += 10 {
		page.Events = append(page.Events, event.Event{
			ID: uuid.New(), Position: position, Intent: event.ProjectionAndReplay, Actor: "a b c",
		})
	}
	elsewhere := "a b c"
	for _, key := range strings.Fields("a b c") {
		if apply.PartitionOf(key, 2) == 1 {
			elsewhere = strings.TrimSpace(strings.Replace(elsewhere, key, "", 1))
		}
	}
	for name, c := range map[string]struct {
		place place
		want  string
		until int64
	}{
		"in one partition":     {place{parts: 1, size: 4}, "10a 10b 10c 20a 20b 20c", 29},
		"one at a time":        {place{parts: 1, size: 1}, "10a 10b 10c", 19},
		"a suspect":            {place{parts: 1, size: 4, trial: trial{marks: 3}}, "10a 10b 10c", 19},
		"one key is behind":    {place{parts: 1, size: 4, held: map[string]int64{"b": 5}}, "10a 10c 20a 20c", 29},
		"all keys are behind":  {place{parts: 1, size: 4, held: map[string]int64{"a": 5, "b": 5, "c": 5}}, "", 50},
		"one key is left out":  {place{parts: 1, size: 2, leftOut: resolved(k, "b")}, "10a 10c", 19},
		"an event is left out": {place{parts: 1, size: 3, leftOut: resolved(k, "-")}, "20a 20b 20c", 29},
		"in two partitions":    {place{parts: 2, part: 0, size: 1}, "10" + strings.Join(strings.Fields(elsewhere), " 10"), 19},
	} {
		var g gathered
		c.place.k, c.place.Runner = k, &Runner{source: &source{}}
		c.place.gather(&g, page, 50)
		var got []string
		for _, one := range g.events {
			got = append(got, fmt.Sprint(one.Event.Position, one.Key))
		}
		if strings.Join(got, " ") != c.want || g.until != c.until {
			t.Errorf("%s: %q until %d, want %s until %d", name, got, g.until, c.want, c.until)
		}
	}
}

// resolved leaves out the first event for a key.
func resolved(k *registry.Projection, key string) (l apply.LeftOut) {
	l.Add(k, key, 10)
	return l
}

// TestKeysOfEventsCountAsBytesOfTheCache has a page whose events have 64 keys each.
func TestKeysOfEventsCountAsBytesOfTheCache(t *testing.T) {
	t.Parallel()
	many := make([]string, 64)
	for i := range many {
		many[i] = strings.Repeat("k", 100) + strconv.Itoa(i)
	}
	k := &registry.Projection{Keys: func(event.Event) ([]string, error) { return many, nil }}
	const events, least = 100, 100 * 64 * (100 + 40)
	s := &source{cache: pages.NewCache(least, events)}
	add := func(after int64) {
		page := &pages.Page{After: after, Until: after + events, Notes: new(sync.Map)}
		for i := range int64(events) {
			page.Events = append(page.Events, event.Event{ID: uuid.New(), Position: after + i + 1, Intent: event.ProjectionAndReplay})
		}
		s.cache.Add(page)
		kept := *page
		if found := s.keyed(k, &kept); len(found.keyed) != events*len(many) {
			t.Fatalf("%d keys were found", len(found.keyed))
		}
		s.keyed(k, &kept) // counted once
	}
	add(0)
	if s.cache.At(0) == nil || s.cache.Roomy() {
		t.Error("the keys of the page do not count")
	}
	add(events)
	if s.cache.At(0) != nil || s.cache.At(events) == nil {
		t.Error("the first page is kept, though the keys of the second need its room")
	}
}
