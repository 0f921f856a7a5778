package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/redis"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
)

func TestMain(m *testing.M) { leaktest.Main(m, proxy.MayStay()...) }

func open(t *testing.T, cfg redis.Config) *redis.Sink {
	t.Helper()
	opened, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*redis.Sink)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func event(campaign string, seq, position int64) publisher.Event {
	return publisher.Event{Topic: "t", Event: journal.Event{
		ID: uuid.New(), Type: "noted", CampaignID: campaign, Seq: seq,
		Position: position, Payload: []byte(`{}`),
	}}
}

func publish(t *testing.T, s *redis.Sink, events ...publisher.Event) {
	t.Helper()
	if err := s.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// marked tells whether an error is certainly no event's fault.
func marked(err error) bool {
	return fmt.Sprintf("%T", err) == fmt.Sprintf("%T", publisher.Outage(errors.New("down")))
}

func large(e *publisher.Event) { e.Payload = fmt.Appendf(nil, `{"n": %q}`, strings.Repeat("x", 2000)) }

func TestRedisKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]redis.Config{
		"a stream a topic": {},
		"a stream a campaign": {
			Stream: "events.{campaign}", MaxLength: 1000,
			Encoder: publisher.Encoder{Format: publisher.FormatCloudEvents, AttributePrefix: "ce_"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publishertest.Run(t, cfg.Encoder, func(t *testing.T) publishertest.Target {
				b := start(t)
				cfg := cfg
				cfg.Servers, cfg.MaxMessageBytes = []string{b.address()}, 1000
				prefix, _, _ := strings.Cut(cfg.Stream, "{")
				if prefix == "" {
					prefix = "tidemark:"
				}
				return publishertest.Target{
					Sink: open(t, cfg), Received: b.received(prefix), Poison: large, Stall: b.stall,
					Stop: b.stop,
				}
			})
		})
	}
}

func TestAnEntryHasTheEventsPositionAsItsIDAndIsThereOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s"})
	// which a float cannot hold
	batch := []publisher.Event{event("a", 1, 100), event("b", 1, 101), event("a", 2, 9007199254740993)}
	for _, part := range [][]publisher.Event{batch[:2], batch, batch[1:]} {
		publish(t, s, part...)
	}
	if ids, events := b.entries("s"); !slices.Equal(ids, []string{"100-0", "101-0", "9007199254740993-0"}) ||
		events[2] != batch[2].ID.String() {
		t.Errorf("the stream holds %s, %s", ids, events)
	}
}

// TestCampaignsMayOvertakeOneAnother has events come that are late by their position: none is taken
// for one that is there, and none of those is added again.
func TestCampaignsMayOvertakeOneAnother(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s"})
	first := []publisher.Event{event("a", 1, 100), event("a", 2, 110)}
	// one of them with a position that is another's, as after a restored backup
	late := []publisher.Event{event("b", 1, 90), event("b", 2, 110), event("b", 3, 105)}
	later := []publisher.Event{event("a", 3, 120), event("b", 4, 115)}
	for range 3 { // as after a rewind
		publish(t, s, first...)
		publish(t, s, late...)
		publish(t, s, later...)
	}
	want := []string{"100-0", "110-0", "110-1", "110-2", "110-3", "120-0", "120-1"}
	if ids, _ := b.entries("s"); !slices.Equal(ids, want) {
		t.Errorf("the stream has %s, want %s", ids, want)
	}
	if keys := b.do("keys", "*"); fmt.Sprint(keys) != "[s {s}:late]" && fmt.Sprint(keys) != "[{s}:late s]" {
		t.Errorf("the keys are %s", keys)
	}
}

func TestWhatIsNoLongerInTheStreamComesBackWhenItIsSentAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s"})
	events := []publisher.Event{event("a", 1, 100), event("b", 1, 90), event("a", 2, 110)}
	again := func() {
		t.Helper()
		for i := range events {
			publish(t, s, events[i])
		}
	}
	holds := func(when string, want ...string) {
		t.Helper()
		if ids, got := b.entries("s"); !slices.Equal(ids, want) || len(got) != 3 {
			t.Errorf("%s: the stream has %s, want %s", when, ids, want)
		}
	}
	again()
	holds("at first", "100-0", "100-1", "110-0")
	b.do("del", "s")
	again()
	holds("deleted", "100-0", "100-1", "110-0")
	b.do("xtrim", "s", "maxlen", "1")
	again()
	holds("trimmed", "110-0", "110-1", "110-2")
	b.do("xtrim", "s", "maxlen", "0")
	again()
	holds("emptied", "110-3", "110-4", "110-5")
}

// Others may have written to the stream with ids of the clock, and positions may begin anew.
func TestAStreamThatIsAheadOfThePositionsTakesEventsAllTheSame(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s"})
	b.do("xadd", "s", "1800000000000-7", "event_id", "somebody's")
	for range 2 {
		publish(t, s, event("a", 1, 0), event("a", 2, 100))
	}
	if ids, _ := b.entries("s"); !slices.Equal(ids,
		[]string{"1800000000000-7", "1800000000000-8", "1800000000000-9", "1800000000000-10", "1800000000000-11"}) {
		t.Errorf("the stream has %s", ids)
	}
}

func TestAStreamIsTrimmed(t *testing.T) {
	t.Parallel()
	b := start(t, "--stream-node-max-entries", "10")
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s", MaxLength: 50})
	for i := range int64(10) {
		var events []publisher.Event
		for n := range int64(100) {
			events = append(events, event("a", 1+i*100+n, 1+i*100+n))
		}
		publish(t, s, events...)
	}
	if ids, _ := b.entries("s"); len(ids) < 50 || len(ids) > 60 || ids[len(ids)-1] != "1000-0" {
		t.Errorf("the stream has %d entries", len(ids))
	}
}

func TestEventsGoToTheStreamThatTheTemplateNames(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "{topic}/{campaign}/{type}"})
	var events []publisher.Event
	// a campaign's events come in several rounds, in order
	for i, kind := range []string{"paid", "placed", "placed", "paid"} {
		for _, campaign := range []string{"a", "b{1}"} {
			e := event(campaign, int64(i), int64(i+1))
			e.Type = kind
			events = append(events, e)
		}
	}
	publish(t, s, events...)
	for _, campaign := range []string{"a", "b%7B1%7D"} {
		paid, _ := b.entries("t/" + campaign + "/paid")
		placed, _ := b.entries("t/" + campaign + "/placed")
		if !slices.Equal(paid, []string{"1-0", "4-0"}) || !slices.Equal(placed, []string{"2-0", "3-0"}) {
			t.Errorf("campaign %s: %s and %s", campaign, paid, placed)
		}
	}
}

// TestAKeyThatIsNoStreamRefusesItsEventsAlone has a template that divides a topic; without one the
// whole sink is at fault.
func TestAKeyThatIsNoStreamRefusesItsEventsAlone(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.do("set", "of b", "a string")
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "of {campaign}"})
	var refused *publisher.BatchError
	err := s.Publish(t.Context(), []publisher.Event{
		event("a", 1, 1), event("b", 1, 2), event("b", 2, 3),
		event("a", 2, 4),
	})
	if !errors.As(err, &refused) || len(refused.Failures) != 2 || refused.Failures[0].Index != 1 ||
		refused.Failures[0].Permanent || refused.Failures[1].Index != 2 ||
		!errors.Is(refused.Failures[1].Err, publisher.ErrNotTried) ||
		!strings.Contains(err.Error(), `key "of b" is no stream`) {
		t.Errorf("got %v", err)
	}
	if ids, _ := b.entries("of a"); len(ids) != 2 {
		t.Errorf("the other campaign has %s", ids)
	}
	s = open(t, redis.Config{Servers: []string{b.address()}, Stream: "of b"})
	if err := s.Publish(t.Context(), []publisher.Event{event("a", 1, 1)}); err == nil || errors.As(err, &refused) ||
		!strings.Contains(err.Error(), `stream "of b": WRONGTYPE`) {
		t.Errorf("got %v", err)
	}
}

func TestALargeBatchIsSentInSeveralCalls(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s"})
	var events []publisher.Event
	for i := range int64(6) {
		e := event(fmt.Sprint(i%2), i, i+1)
		e.Payload = fmt.Appendf(nil, `%q`, strings.Repeat("x", 5<<20))
		events = append(events, e)
	}
	publish(t, s, events...)
	ids, _ := b.entries("s")
	if calls := b.do("info", "commandstats").(string); len(ids) != 6 || ids[5] != "6-0" ||
		!strings.Contains(calls, "cmdstat_evalsha:calls=6") {
		t.Errorf("the stream has %s\n%s", ids, calls)
	}
}

func TestABatchIsOneCall(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s"})
	publish(t, s, event("a", 1, 1)) // Redis learns the script
	b.do("config", "resetstat")
	var events []publisher.Event
	for i := range int64(100) {
		events = append(events, event(fmt.Sprint(i%7), i, i+2))
	}
	publish(t, s, events...)
	if calls := b.do("info", "commandstats").(string); !strings.Contains(calls, "cmdstat_evalsha:calls=1,") ||
		!strings.Contains(calls, "cmdstat_xadd:calls=100,") || strings.Contains(calls, "cmdstat_xrange") {
		t.Error(calls)
	}
	b.do("script", "flush")
	publish(t, s, event("a", 200, 200)) // and learns it again
}

func TestAnOutageBlamesNoEvent(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.do("acl", "setuser", "reader", "on", ">pw", "~*", "+@all", "-xadd")
	full := start(t, "--maxmemory", "1")
	for name, test := range map[string]struct {
		cfg  redis.Config
		want string
	}{
		"a password that is wrong": {redis.Config{User: "reader", Password: "guess"}, "WRONGPASS"},
		"a right that is missing":  {redis.Config{User: "reader", Password: "pw"}, "can't run this command"},
		"no memory":                {redis.Config{Servers: []string{full.address()}}, "OOM"},
		"no server":                {redis.Config{Servers: []string{"127.0.0.1:1"}}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.cfg.Servers == nil {
				test.cfg.Servers = []string{b.address()}
			}
			var refused *publisher.BatchError
			err := open(t, test.cfg).Publish(t.Context(), []publisher.Event{event("a", 1, 1), event("a", 2, 2)})
			if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			// Where Redis answers a PING nevertheless, only the mark tells that no event is at fault.
			if answers := name == "a right that is missing" || name == "no memory"; answers && !marked(err) {
				t.Errorf("%v is not marked as an outage", err)
			}
		})
	}
}

// A server that accepts, and says nothing.
func TestAServerThatIsSilentEndsPublishWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s := open(t, redis.Config{Servers: []string{listener.Addr().String()}})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	started := time.Now()
	if err := s.Publish(ctx, []publisher.Event{event("a", 1, 1)}); !errors.Is(err, context.Canceled) ||
		time.Since(started) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(started), err)
	}
}

func TestAClusterKeepsAStreamInOneSlot(t *testing.T) {
	t.Parallel()
	b := start(t, "--cluster-enabled", "yes")
	b.do("cluster", "addslotsrange", "0", "16383")
	s := open(t, redis.Config{Servers: []string{b.Options().Addr}, Cluster: true, Stream: "of {campaign}"})
	batch := []publisher.Event{
		event("a", 1, 100), event("{b}", 1, 90), event("a", 2, 80), event("{b}", 2, 70),
		event("{}c{%", 1, 10), event("{}c{%", 2, 9),
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	// the node takes a moment to find that it is a whole cluster
	for deadline := time.Now().Add(3 * time.Minute); ; <-tick.C {
		err := s.Publish(t.Context(), batch)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	publish(t, s, batch...)
	for campaign, want := range map[string]string{
		"a": "[100-0 100-1]", "%7Bb%7D": "[90-0 90-1]",
		"%7B%7Dc%7B%25": "[10-0 10-1]",
	} {
		if ids, _ := b.entries("of " + campaign); fmt.Sprint(ids) != want {
			t.Errorf("campaign %s has %s", campaign, ids)
		}
	}
}

// TestTheRightsThatAreDocumentedAreEnough has a user with no others.
func TestTheRightsThatAreDocumentedAreEnough(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.do("acl", "setuser", "writer", "on", ">pw", "~s", "~{s}:late*", "+evalsha", "+eval", "+xadd", "+xrange", "+xinfo",
		"+hget", "+hset", "+hlen", "+rename", "+ping")
	s := open(t, redis.Config{Servers: []string{b.address()}, Stream: "s", User: "writer", Password: "pw"})
	batch := []publisher.Event{event("a", 1, 100), event("b", 1, 90)}
	publish(t, s, batch...)
	publish(t, s, batch...)
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if ids, _ := b.entries("s"); !slices.Equal(ids, []string{"100-0", "100-1"}) {
		t.Errorf("the stream has %s", ids)
	}
}
