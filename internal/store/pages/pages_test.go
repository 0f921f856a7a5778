package pages

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
)

func TestPagesAreFoundByPositionAndBounded(t *testing.T) {
	t.Parallel()
	c := Cache{limit: 100 * (eventBytes + 2), full: 10}
	for at := int64(0); at < 1000; at += 2 {
		c.Add(&Page{After: at, Until: at + 2, Events: []event.Event{{Position: at + 2, Payload: []byte("{}")}}})
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
	c.Add(&Page{After: 1000, Until: 1001, Events: []event.Event{{Position: 1001}}})
	if early[0].Position != p.Events[0].Position {
		t.Error("adding to a page has changed what its readers have")
	}
}

// TestPagesAreReadAheadWhileTheyFit has pages of one event each, in a cache that holds five.
func TestPagesAreReadAheadWhileTheyFit(t *testing.T) {
	t.Parallel()
	c := NewCache(5*eventBytes, 1)
	expect := func(position int64, n int, until int64, next bool) {
		t.Helper()
		if gotUntil, got := c.Ahead(position, n); gotUntil != until || got != next {
			t.Errorf("after %d, %d pages: they end at %d, read on: %t; want %d, %t", position, n, gotUntil, got, until, next)
		}
	}
	expect(0, 3, 0, false) // its own page is not there
	for at := range int64(4) {
		c.Add(&Page{After: at, Until: at + 1, Events: []event.Event{{Position: at + 1}}})
	}
	expect(0, 3, 3, false) // there are enough
	expect(0, 4, 4, true)
	expect(2, 4, 4, true)
	expect(4, 4, 4, false)
	c.Add(&Page{After: 4, Until: 5, Events: []event.Event{{Position: 5}}})
	expect(0, 9, 5, false) // a sixth page would drop the first
	c.Add(&Page{After: 5, Until: 6, Events: []event.Event{{Position: 6}}})
	expect(0, 9, 0, false)
	expect(1, 9, 6, false)
	expect(3, 9, 6, true)
}

func TestAPageIsExtendedUpToTheBytesOfARead(t *testing.T) {
	t.Parallel()
	c := NewCache(1<<40, 1<<20)
	for at := range int64(12) {
		e := event.Event{Position: at + 1, Payload: make([]byte, Bytes/4)}
		c.Add(&Page{After: at, Until: at + 1, Events: []event.Event{e}})
	}
	if len(c.list) != 4 {
		t.Errorf("there are %d pages, want 4 with 3 events each", len(c.list))
	}
	for _, p := range c.list {
		if p.size() > Bytes {
			t.Errorf("a page has %d bytes, more than %d", p.size(), Bytes)
		}
	}
}

func TestPagesThatAllReadersHavePassedAreDropped(t *testing.T) {
	t.Parallel()
	c := NewCache(1<<20, 1)
	for at := range int64(4) {
		c.Add(&Page{After: at, Until: at + 1, Events: []event.Event{{Position: at + 1}}})
	}
	for _, reached := range []struct{ position, first int64 }{{0, 0}, {2, 2}, {1, 2}, {9, 3}} {
		c.Passed(reached.position)
		if first := c.list[0].After; first != reached.first || c.bytes != eventBytes*int64(len(c.list)) {
			t.Errorf("all have passed %d: the first page is after %d, want %d; %d pages of %d bytes", reached.position, first,
				reached.first, len(c.list), c.bytes)
		}
	}
}

// TestACacheCountsTheRoomOfItsPages adds events one by one, as they come at the journal's end.
func TestACacheCountsTheRoomOfItsPages(t *testing.T) {
	t.Parallel()
	const payload = 100
	c := NewCache(1<<20, 100)
	for at := range int64(10_000) {
		e := event.Event{Position: at + 1, Payload: fmt.Appendf(make([]byte, 0, 512), "%*d", payload, at+1)}
		c.Add(&Page{After: at, Until: at + 1, Events: []event.Event{e}})
	}
	var takes int64
	for _, p := range c.list {
		takes += int64(cap(p.Events)) * int64(reflect.TypeFor[event.Event]().Size())
		for _, e := range p.Events {
			if takes += int64(cap(e.Payload)); string(e.Payload) != fmt.Sprintf("%*d", payload, e.Position) {
				t.Fatalf("event %d has the payload %q", e.Position, e.Payload)
			}
		}
	}
	if takes > c.limit || takes < c.limit/2 {
		t.Errorf("%d pages take %d bytes; the limit is %d", len(c.list), takes, c.limit)
	}
}

func TestNotesOfReadersCountAsBytesOfTheCache(t *testing.T) {
	t.Parallel()
	c := NewCache(10*eventBytes, 1)
	for at := range int64(4) {
		c.Add(&Page{After: at, Until: at + 1, Events: []event.Event{{Position: at + 1}}, Notes: new(sync.Map)})
	}
	c.Noted(&Page{Notes: new(sync.Map)}, 100*eventBytes) // of a page that is not kept
	c.Noted(c.At(2), 7*eventBytes)
	if c.At(0) != nil || c.At(1) == nil || c.bytes != 10*eventBytes {
		t.Errorf("the cache has %d pages of %d bytes", len(c.list), c.bytes)
	}
	c.Noted(c.At(1), 9*eventBytes)
	if len(c.list) != 2 || c.bytes != 9*eventBytes {
		t.Errorf("the cache has %d pages of %d bytes", len(c.list), c.bytes)
	}
}
