package publisher

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/slice"
)

// round is events that lanes send batch by batch, from the first on. A campaign is with one lane at
// a time, so each of its batches begins after the previous one got through. The rest of a failed
// campaign is skipped.
type round struct {
	*sender
	events []Event
	until  time.Time // no batch begins later, except the first of each lane

	mu     sync.Mutex
	given  []bool          // by event: given to a lane
	first  int             // all before it are given
	out    map[string]bool // campaigns that are with a lane
	failed map[string]bool
	o      *outcome
}

// share is a batch, and the indexes of its events in the round.
type share struct {
	events []Event
	first  int
	places []int // nil: consecutive from first on
}

func (b *share) place(i int) int {
	if b.places == nil {
		return b.first + i
	}
	return b.places[i]
}

// run sends until nothing is left, a batch fails as a whole, or the time is up.
func (r *round) run(ctx context.Context) *outcome {
	n := len(r.events)
	if n <= r.to.BatchSize {
		o := &outcome{sent: make([]bool, n)}
		o.refused, o.broken = r.batch(ctx, r.events, o.sent)
		return o
	}
	r.begin()
	var others sync.WaitGroup
	for range min(r.to.Concurrency, (n+r.to.BatchSize-1)/r.to.BatchSize) - 1 {
		others.Go(func() { r.lane(ctx) })
	}
	r.lane(ctx)
	others.Wait()
	return r.o
}

func (r *round) begin() {
	n := len(r.events)
	r.o, r.given, r.out, r.failed = &outcome{sent: make([]bool, n)}, make([]bool, n), map[string]bool{}, map[string]bool{}
}

func (r *round) lane(ctx context.Context) {
	sent := make([]bool, min(r.to.BatchSize, len(r.events)))
	for first := true; first || time.Now().Before(r.until); first = false {
		b := r.next()
		if len(b.events) == 0 {
			return
		}
		clear(sent)
		refused, broken := r.batch(ctx, b.events, sent)
		r.done(b, sent, refused, broken)
	}
}

// next returns the next batch of campaigns that no lane has.
func (r *round) next() share {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.broken != nil {
		return share{}
	}
	for r.first < len(r.events) && r.given[r.first] {
		r.first++
	}
	var places []int
	campaign, free := "", false // of the previous event
	gaps := false
	for i := r.first; i < len(r.events) && len(places) < r.to.BatchSize; i++ {
		if r.given[i] {
			continue
		}
		if c := r.events[i].CampaignID; c != campaign || i == r.first {
			campaign, free = c, !r.out[c] && !r.failed[c]
		}
		if !free {
			continue
		}
		if places == nil {
			places = make([]int, 0, min(r.to.BatchSize, len(r.events)-i))
		}
		gaps = gaps || len(places) > 0 && places[len(places)-1] != i-1
		places = append(places, i)
		r.given[i] = true
	}
	if len(places) == 0 {
		return share{}
	}
	b := share{first: places[0]}
	if b.events = r.events[b.first : b.first+len(places)]; gaps {
		b.events, b.places = slice.Of(places, func(place int) Event { return r.events[place] }), places
	}
	r.mark(b.events, true)
	return b
}

// mark records whether the campaigns of events are with a lane.
func (r *round) mark(events []Event, out bool) {
	for i := range events {
		switch c := events[i].CampaignID; {
		case i > 0 && events[i-1].CampaignID == c:
		case out:
			r.out[c] = true
		default:
			delete(r.out, c)
		}
	}
}

func (r *round) done(b share, sent []bool, refused []refusal, broken error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.events {
		if sent[i] {
			r.o.sent[b.place(i)] = true
		} else {
			r.failed[b.events[i].CampaignID] = true
		}
	}
	for _, f := range refused {
		f.index = b.place(f.index)
		r.o.refused = append(r.o.refused, f)
	}
	r.o.broken = cmp.Or(r.o.broken, broken)
	r.mark(b.events, false)
}
