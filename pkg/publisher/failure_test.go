package publisher_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// campaigns returns n names.
func campaigns(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("c%04d", i))
	}
	return names
}

// of returns the received seqs of a campaign.
func of(sink *memory.Sink, campaign string) (seqs []int64) {
	for _, r := range sink.Received() {
		if r.CampaignID == campaign {
			seqs = append(seqs, r.Seq)
		}
	}
	return seqs
}

// poison returns a sink that refuses one event of campaign c0500 until lift is called.
func poison(permanent bool) (sink *memory.Sink, lift func()) {
	var lifted atomic.Bool
	return &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
		if e.CampaignID == "c0500" && e.Seq == 2 && !lifted.Load() {
			return errRefused, permanent
		}
		return nil, false
	}}, func() { lifted.Store(true) }
}

func TestAPoisonEventHoldsBackItsCampaignAlone(t *testing.T) {
	t.Parallel()
	for _, permanent := range []bool{true, false} {
		t.Run(fmt.Sprintf("permanent %t", permanent), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			sink, lift := poison(permanent)
			appendTo(t, pool, 3, campaigns(1000)...)
			start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.Attempts = 3 }))
			eventually(t, "all others have arrived", func() bool { return len(sink.Received()) == 2998 })
			eventually(t, "it is parked", func() bool {
				return query[int](t, pool,
					"SELECT count(*) FROM tidemark.parked WHERE status = 'parked' AND holds AND campaign_id = 'c0500' AND seq = 2 "+
						"AND error_message = 'refused'") == 1
			})
			want := 3
			if permanent {
				want = 1
			}
			if n := query[int](t, pool, "SELECT attempt_count FROM tidemark.parked"); n != want {
				t.Errorf("it had %d attempts, want %d", n, want)
			}
			appendTo(t, pool, 2, "c0500", "c0501")
			eventually(t, "the position is at the end", func() bool { return position(t, pool) == 3004 })
			if got := fmt.Sprint(of(sink, "c0500")); got != "[1]" {
				t.Errorf("of its campaign %s has arrived", got)
			}
			lift()
			if _, err := publications.Retry(t.Context(), pool, publications.ParkedFilter{},
				publications.Act{By: "anna"}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "its campaign has arrived", func() bool { return fmt.Sprint(of(sink, "c0500")) == "[1 2 3 4 5]" })
			eventually(t, "nothing is parked", func() bool {
				return query[int](t, pool, "SELECT count(*) FROM tidemark.parked") == 0
			})
			appendTo(t, pool, 1, "c0500")
			eventually(t, "the campaign goes on", func() bool { return fmt.Sprint(of(sink, "c0500")) == "[1 2 3 4 5 6]" })
		})
	}
}

func TestAResolvedEventIsLeftOutAndItsCampaignGoesOn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink, _ := poison(true)
	appendTo(t, pool, 250, "c0500", "a") // more than a batch comes after it
	stop := start(t, quick(pool, sink))
	eventually(t, "it is parked", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked'") == 1
	})
	eventually(t, "the position is at the end", func() bool { return position(t, pool) == 500 })
	stop() // a relay that starts later knows of it too
	start(t, quick(pool, sink))
	appendTo(t, pool, 1, "c0500", "a")
	eventually(t, "others go on", func() bool { return len(of(sink, "a")) == 251 })
	if got := of(sink, "c0500"); len(got) != 1 {
		t.Errorf("of its campaign %d has arrived", got)
	}
	if _, err := publications.Resolve(t.Context(), pool, publications.ParkedFilter{CampaignID: "c0500"},
		publications.Act{By: "anna", Reason: "not needed"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rest has arrived", func() bool { return len(of(sink, "c0500")) == 250 })
	for i, seq := range of(sink, "c0500") {
		if want := int64(i + 1 + min(i, 1)); seq != want {
			t.Fatalf("event %d came as number %d", seq, i)
		}
	}
	if n := query[int](t, pool,
		"SELECT count(*) FROM tidemark.operator_log WHERE act = 'parked_resolved' AND actor = 'anna' AND reason = 'not "+
			"needed' AND seq = 2"); n != 1 {
		t.Errorf("the act stands %d times in the log", n)
	}
}

func TestParkEventLeavesOutOnlyTheEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, permanent := range []bool{true, false} {
		mustExec(t, pool, "TRUNCATE tidemark.parked, tidemark.readers")
		sink, lift := poison(permanent)
		if permanent {
			appendTo(t, pool, 3, campaigns(1000)...)
		}
		stop := start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) {
			p.OnRefusal, p.Attempts = publisher.ParkEvent, 2
		}))
		eventually(t, "its campaign went on", func() bool { return fmt.Sprint(of(sink, "c0500")) == "[1 3]" })
		eventually(t, "it is parked and holds nobody", func() bool {
			return query[int](t, pool, "SELECT count(*) FROM tidemark.parked") == 1 &&
				query[int](t, pool, "SELECT count(*) FROM tidemark.parked WHERE status = 'parked' AND NOT holds AND seq = 2") == 1
		})
		lift()
		if _, err := publications.Retry(t.Context(), pool, publications.ParkedFilter{},
			publications.Act{By: "anna"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has arrived", func() bool { return fmt.Sprint(of(sink, "c0500")) == "[1 3 2]" })
		eventually(t, "nothing is parked", func() bool {
			return query[int](t, pool, "SELECT count(*) FROM tidemark.parked") == 0
		})
		stop()
	}
}

func TestBlockStopsThePair(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink, lift := poison(false)
	appendTo(t, pool, 3, "a", "c0500")
	start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) {
		p.OnRefusal, p.Attempts, p.BackoffMax = publisher.Block, 4, 10*time.Millisecond
	}))
	eventually(t, "the pair has failed", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.readers WHERE status = 'FAILED'") == 1
	})
	if got := position(t, pool); got != 4 {
		t.Errorf("the position is %d, the event's is 5", got)
	}
	if got := query[string](t, pool, "SELECT last_error FROM tidemark.readers"); got == "" {
		t.Error("nothing says why")
	}
	lift()
	if _, err := publications.Reset(t.Context(), pool, publications.Key{Topic: "all", Publisher: "out"},
		publications.ResetTo{},
		publications.Act{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all has arrived", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
	inOrder(t, sink.Received())
}

func TestAnOutageParksNothingAndCostsNoAttempt(t *testing.T) {
	t.Parallel()
	for name, sinkOf := range map[string]func(down *atomic.Bool) publisher.Sink{
		"a sink that says so": func(down *atomic.Bool) publisher.Sink {
			return &memory.Sink{Down: func() error {
				if down.Load() {
					return memory.ErrDown
				}
				return nil
			}}
		},
		"a sink that blames each event": func(down *atomic.Bool) publisher.Sink {
			return unhealthyless{&memory.Sink{Refuse: func(publisher.Event) (error, bool) {
				if down.Load() {
					return memory.ErrDown, false
				}
				return nil, false
			}}}
		},
		"a sink that cannot tell": func(down *atomic.Bool) publisher.Sink {
			return unhealthyless{&memory.Sink{OnPublish: func(context.Context, []publisher.Event) error {
				if down.Load() {
					return memory.ErrDown
				}
				return nil
			}}}
		},
		"a sink that is there and takes nothing": func(down *atomic.Bool) publisher.Sink {
			return &memory.Sink{OnPublish: func(context.Context, []publisher.Event) error {
				if down.Load() {
					return publisher.Outage(memory.ErrDown)
				}
				return nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			var down atomic.Bool
			sink := sinkOf(&down)
			appendTo(t, pool, 50, "a", "b")
			start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) {
				p.Attempts, p.BackoffMax = 2, 5*time.Millisecond
			}))
			eventually(t, "it works", func() bool { return len(receivedOf(sink)) == 100 })
			down.Store(true)
			appendTo(t, pool, 50, "a", "b")
			eventually(t, "it has failed often", func() bool {
				return query[int](t, pool, "SELECT error_count FROM tidemark.readers") > 20
			})
			if got := query[string](t, pool, "SELECT status || ' ' || last_error FROM tidemark.readers"); got != "ACTIVE "+
				memory.ErrDown.Error() {
				t.Errorf("the pair is %s", got)
			}
			down.Store(false)
			eventually(t, "all has arrived", func() bool { return hasAll(receivedOf(sink), committed(t, pool)) })
			inOrder(t, receivedOf(sink))
			if n := len(receivedOf(sink)); n != 200 {
				t.Errorf("%d events have arrived, 200 were appended", n)
			}
			if n := query[int](t, pool, "SELECT count(*) FROM tidemark.parked"); n != 0 {
				t.Errorf("%d events are parked", n)
			}
			eventually(t, "the pair has no error", func() bool {
				return query[int](t, pool, "SELECT error_count FROM tidemark.readers") == 0
			})
		})
	}
}

// The sink goes down while only the retried event is left to send. The outage uses up none of its
// attempts.
func TestAnEventThatIsTriedAgainLosesNoAttemptInAnOutage(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	sink, lift := poison(false)
	var asked atomic.Int64
	var down atomic.Bool
	sink.Down = func() error {
		if !down.Load() {
			return nil
		}
		asked.Add(1)
		return memory.ErrDown
	}
	appendTo(t, pool, 3, "a", "c0500")
	start(t, quick(pool, sink, func(_ *publisher.Config, p *publisher.Publisher) { p.Attempts = 10 }))
	attempts := func() int { return query[int](t, pool, "SELECT coalesce(max(attempt_count), 0) FROM tidemark.parked") }
	eventually(t, "it is tried again", func() bool { return attempts() > 0 })
	down.Store(true)
	before := attempts()
	eventually(t, "the relay asks the other side", func() bool { return asked.Load() >= 20 || attempts() >= 10 })
	if now := attempts(); now > before+1 { // one attempt may have been under way
		t.Errorf("it had %d attempts when the other side went down and %d a while later", before, now)
	}
	lift()
	down.Store(false)
	eventually(t, "all has arrived", func() bool { return hasAll(sink.Received(), committed(t, pool)) })
}

// unhealthyless hides the Healthy method of a sink.
type unhealthyless struct{ publisher.Sink }

func receivedOf(sink publisher.Sink) []memory.Received {
	if u, ok := sink.(unhealthyless); ok {
		sink = u.Sink
	}
	return sink.(*memory.Sink).Received()
}

func ptr[T any](v T) *T { return &v }

func TestAPairFailsSinceTheFirstErrorOfARow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var down atomic.Bool
	down.Store(true)
	start(t, quick(pool, &memory.Sink{Down: func() error {
		if down.Load() {
			return errRefused
		}
		return nil
	}}))
	appendTo(t, pool, 1, "a")
	pair := func() publications.Publication {
		list, err := publications.List(t.Context(), pool, pairKey())
		if err != nil || len(list) > 1 {
			t.Fatalf("%d pairs, %v", len(list), err)
		}
		return append(list, publications.Publication{})[0]
	}
	eventually(t, "it fails", func() bool { return pair().Failing() })
	first := pair()
	if first.FailingSince == nil || first.FailingSince.After(*first.LastErrorAt) {
		t.Fatalf("it fails since %v, the last error was at %v", first.FailingSince, first.LastErrorAt)
	}
	eventually(t, "it fails again and again", func() bool { return pair().Errors >= first.Errors+3 })
	if now := pair(); !now.FailingSince.Equal(*first.FailingSince) || !now.LastErrorAt.After(*first.LastErrorAt) {
		t.Errorf("after %d errors it fails since %s, and since %s after %d", now.Errors, now.FailingSince,
			first.FailingSince, first.Errors)
	}
	down.Store(false)
	eventually(t, "it has published", func() bool { return position(t, pool) == 1 })
	if now := pair(); now.FailingSince != nil || now.Failing() {
		t.Errorf("it has published, and fails since %v", now.FailingSince)
	}
}
