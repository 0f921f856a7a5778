package publisher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// order is a sink that records the seqs it gets and the campaigns it gets in two batches at once.
type order struct {
	mu       sync.Mutex
	out      map[string]bool
	seqs     map[string][]int64
	batches  int
	largest  int
	together []string
	refuse   func(e Event) bool
}

func newOrder() *order { return &order{out: map[string]bool{}, seqs: map[string][]int64{}} }

func (*order) Name() string { return "order" }

func (o *order) Publish(_ context.Context, events []Event) error {
	o.mu.Lock()
	o.batches, o.largest = o.batches+1, max(o.largest, len(events))
	campaigns := map[string]bool{}
	var failures []Failure
	for i, e := range events {
		campaigns[e.CampaignID] = true
		if o.refuse != nil && o.refuse(e) {
			failures = append(failures, Failure{Index: i, Err: errors.New("refused")})
		}
		o.seqs[e.CampaignID] = append(o.seqs[e.CampaignID], e.Seq)
	}
	for c := range campaigns {
		if o.out[c] {
			o.together = append(o.together, c)
		}
		o.out[c] = true
	}
	o.mu.Unlock()
	for range rand.IntN(3) { // let other goroutines run
		runtime.Gosched()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range campaigns {
		delete(o.out, c)
	}
	if failures != nil {
		return &BatchError{Failures: failures}
	}
	return nil
}

// shuffled returns the given number of events for each campaign, in order within a campaign and
// otherwise random.
func shuffled(campaigns, each int) (events []Event) {
	next := make([]int64, campaigns)
	for range campaigns * each {
		c := rand.IntN(campaigns)
		for next[c] == int64(each) {
			c = (c + 1) % campaigns
		}
		next[c]++
		events = append(events, Event{Event: event.Event{
			CampaignID: fmt.Sprint(c), Seq: next[c],
			Position: int64(len(events) + 1),
		}})
	}
	return events
}

func rounds(t *testing.T, sink Sink, events []Event, until time.Time) *outcome {
	t.Helper()
	to, err := Publisher{Sink: sink, BatchSize: 10}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := &sender{to: &to, trusted: func() bool { return true }}
	return (&round{sender: s, events: events, until: until}).run(t.Context())
}

func TestLanesKeepCampaignsInOrder(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct{ campaigns, each int }{{1, 500}, {3, 200}, {7, 90}, {400, 2}, {1000, 1}, {5, 1}} {
		sink := newOrder()
		events := shuffled(shape.campaigns, shape.each)
		o := rounds(t, sink, events, time.Now().Add(time.Hour))
		if o.count() != len(events) || o.broken != nil || len(o.refused) > 0 {
			t.Errorf("%v: %d of %d were sent, broken: %v, %d refused", shape, o.count(), len(events), o.broken, len(o.refused))
		}
		if len(sink.together) > 0 || sink.largest > 10 {
			t.Errorf("%v: campaigns %v were with two lanes at once, the largest batch has %d events", shape, sink.together,
				sink.largest)
		}
		for c, seqs := range sink.seqs {
			if len(seqs) != shape.each || !slices.IsSorted(seqs) {
				t.Errorf("%v: campaign %s came as %v", shape, c, seqs)
			}
		}
	}
}

func TestARoundWhoseTimeIsUpLeavesTheRest(t *testing.T) {
	t.Parallel()
	sink := newOrder()
	o := rounds(t, sink, shuffled(100, 10), time.Now())
	if sink.batches == 0 || sink.batches > 4 || o.count() != 10*sink.batches || o.broken != nil || len(o.refused) > 0 {
		t.Errorf("four lanes have sent %d batches, %d events are noted, broken: %v, %d refused", sink.batches, o.count(),
			o.broken, len(o.refused))
	}
}

func TestARoundGoesOnWithoutACampaignThatHasFailed(t *testing.T) {
	t.Parallel()
	sink := newOrder()
	// The sink also refuses every later event of the campaign.
	sink.refuse = func(e Event) bool { return e.CampaignID == "3" && e.Seq >= 30 }
	events := shuffled(20, 50)
	o := rounds(t, sink, events, time.Now().Add(time.Hour))
	if len(o.refused) != 1 || events[o.refused[0].index].CampaignID != "3" || events[o.refused[0].index].Seq != 30 ||
		o.broken != nil {
		t.Errorf("refused: %+v, broken: %v", o.refused, o.broken)
	}
	if o.count() != 19*50+29 {
		t.Errorf("%d events were sent", o.count())
	}
	if seqs := sink.seqs["3"]; len(seqs) >= 50 {
		t.Errorf("the campaign went on to event %d", seqs[len(seqs)-1])
	}
	for i, e := range events {
		if want := e.CampaignID != "3" || e.Seq < 30; o.sent[i] != want {
			t.Errorf("event %d of campaign %s: sent %v", e.Seq, e.CampaignID, o.sent[i])
		}
	}
}

func TestABatchLeavesOutWhatIsWithAnotherLane(t *testing.T) {
	t.Parallel()
	to, err := Publisher{Sink: newOrder(), BatchSize: 2}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r := &round{sender: &sender{to: &to}}
	for i, c := range []string{"a", "b", "a", "c", "a", "c", "c"} {
		r.events = append(r.events, Event{Event: event.Event{CampaignID: c, Position: int64(i)}})
	}
	r.begin()
	positions := func(b share) (at []int64) {
		for i, e := range b.events {
			if b.place(i) != int(e.Position) {
				t.Errorf("event %d is said to have place %d", e.Position, b.place(i))
			}
			at = append(at, e.Position)
		}
		return at
	}
	first, second, none := r.next(), r.next(), r.next()
	if got := fmt.Sprint(positions(first), positions(second), positions(none)); got != "[0 1] [3 5] []" {
		t.Fatalf("the lanes got %s", got)
	}
	r.done(second, []bool{true, false}, []refusal{{index: 1, err: errors.New("refused")}}, nil)
	r.done(first, []bool{true, true}, nil, nil)
	if got := fmt.Sprint(positions(r.next()), positions(r.next())); got != "[2 4] []" {
		t.Errorf("then the lanes got %s", got)
	}
	if got := fmt.Sprint(r.o.sent); got != "[true true false true false false false]" || len(r.o.refused) != 1 ||
		r.o.refused[0].index != 5 {
		t.Errorf("%s were sent, refused: %+v", got, r.o.refused)
	}
}

func TestARoundEndsWhenTheSinkFails(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	var calls atomic.Int64
	o := rounds(t, sinkFunc(func([]Event) error {
		calls.Add(1)
		return down
	}), shuffled(1000, 1), time.Now().Add(time.Hour))
	if calls.Load() > 4 || o.count() != 0 || !errors.Is(o.broken, down) {
		t.Errorf("four lanes have called the sink %d times, %d were sent, broken: %v", calls.Load(), o.count(), o.broken)
	}
}

func TestManyPairsKeepSmallRounds(t *testing.T) {
	t.Parallel()
	to, err := Publisher{Sink: newOrder()}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for pairs, want := range map[int]int{1: 1600, 40: 1600, 80: 800, 500: 400} {
		r := newRelay(Config{}, nil, nil, "", "")
		for i := range pairs {
			r.pairs[publications.Key{Publisher: fmt.Sprint(i)}] = nil
		}
		if got := r.dispatcher.room(&pair{route: &route{to: to}}); got != want {
			t.Errorf("with %d pairs a round has room for %d events, want %d", pairs, got, want)
		}
	}
}

func TestMoreThanAFewPairsAreWrittenAndWokenLessOften(t *testing.T) {
	t.Parallel()
	for pairs, want := range map[int]struct{ save, tail time.Duration }{
		1: {22 * time.Millisecond, 0}, 100: {220 * time.Millisecond, 9900 * time.Microsecond},
		1000: {500 * time.Millisecond, 20 * time.Millisecond},
	} {
		if got := savePause(pairs); got != want.save {
			t.Errorf("after %d pairs were written the next write waits %s, want %s", pairs, got, want.save)
		}
		if got := tailPause(pairs); got != want.tail {
			t.Errorf("with %d pairs reads of the journal's end are %s apart, want %s", pairs, got, want.tail)
		}
	}
}
