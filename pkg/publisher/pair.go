package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/tracing"
)

// pair is a topic and a publisher that this process holds. Only the relay's loop touches it;
// goroutines get copies of what they need.
type pair struct {
	*route
	tenure
	place
	holds
	condition
	wait

	pending []Event           // of the round
	parks   []*ledger.Refused // to be written before the round continues
	erased  bool              // events have been erased, perhaps some of the round
	busy    bool              // a goroutine works on the round
	leaving bool              // to be released once it is not busy
}

// tenure is the lease of a pair, as this process knows it.
type tenure struct {
	generation int64
	instance   string // of the database it was claimed in
	claimed    time.Time
	trusted    time.Time // until when the lease is certainly held
	ctx        context.Context
	cancel     context.CancelFunc
}

type place struct {
	read      int64     // events up to this position are sent or skipped
	ahead     int64     // pages that begin before this position have been prefetched
	acked     int64     // events up to this position are published or parked
	saved     int64     // acked as saved in the database
	published int64     // events sent since the last save
	changed   time.Time // since when acked is ahead of saved; zero: it is not
}

// holds is the campaigns of a pair that wait or catch up.
type holds struct {
	held       map[string]int64 // waiting campaigns, with the position of the last event skipped
	draining   map[string]bool  // campaigns that catch up, until the end of that is written
	drained    map[string]time.Time
	drains     context.Context // of catch-ups: ends when the pair is to be released
	stopDrains context.CancelFunc
}

// condition is the state of a pair's sink.
type condition struct {
	failures    int // of the sink as a whole, consecutive
	lastSuccess time.Time
	blocked     int64    // position of the event that blocks
	blockedFor  int      // attempts at it
	failing     *failing // to be written
	reporting   bool     // failing is being written
	halting     *halting
}

// wait is the state of a pair that has nothing to send.
type wait struct {
	notBefore time.Time // nothing is sent before
	wanting   bool      // for a page
	since     time.Time // since when it waits for a page
	polled    bool      // it has been given all there was
	empty     int       // consecutive polls without an event
	nextPoll  time.Time
}

// take fills the round from a page, up to room events. It skips other topics' events and held campaigns.
func (p *pair) take(page *pages.Page, room int) {
	events := page.Events
	first := sort.Search(len(events), func(i int) bool { return events[i].Position > p.read })
	for i := first; i < len(events); i++ {
		if len(p.pending) >= room {
			return
		}
		e := &events[i]
		p.read = e.Position
		if !p.filter.has(e, page.Notices[e.Position]) {
			continue
		}
		if _, held := p.held[e.CampaignID]; held {
			p.held[e.CampaignID] = e.Position
			continue
		}
		if n := len(p.pending); n == cap(p.pending) {
			p.pending = slices.Grow(p.pending, min(max(3*n, 8), room-n, len(events)-i))
		}
		fault := page.Faults[e.Position]
		if closed := new(feed.ClosedError); !p.to.OpenSealed && errors.As(fault, &closed) {
			fault = nil
		}
		p.pending = append(p.pending, Event{Event: *e, Topic: p.Topic, fault: fault})
		if !p.to.OpenSealed { // others may have had the page opened
			feed.Close(&p.pending[len(p.pending)-1].Event)
		}
	}
	p.read = page.Until
}

// settle moves acked up to the first pending event.
func (p *pair) settle(now time.Time) {
	to := p.read
	if len(p.pending) > 0 {
		to = p.pending[0].Position - 1
	}
	if to > p.acked {
		p.acked = to
		if p.changed.IsZero() {
			p.changed = now
		}
	}
}

// forget drops the round, which may have events that have been erased since they were read. Those after
// acked are read again.
func (p *pair) forget() {
	if p.erased = false; len(p.pending) > 0 {
		p.pending, p.read, p.ahead = nil, p.acked, 0
	}
}

func (p *pair) retryDelay(attempts int) time.Duration {
	return min(p.to.RetryBase<<min(max(attempts-1, 0), 20), p.to.RetryMax)
}

// keep drops pending events. It writes to a new slice, because the sink may still read a cancelled batch.
func (p *pair) keep(kept func(i int) bool) {
	rest := make([]Event, 0, cap(p.pending))
	for i := range p.pending {
		if kept(i) {
			rest = append(rest, p.pending[i])
		}
	}
	p.pending = rest
}

type route struct {
	publications.Key
	filter *Filter
	to     Publisher
	tracer *tracing.Tracer // nil: no traces
}

// routesOf returns all pairs, and all mistakes in their configuration.
func routesOf(cfg Config) (map[publications.Key]*route, error) {
	var errs []error
	topics := map[string]*Topic{}
	for i := range cfg.Topics {
		t := &cfg.Topics[i]
		if t.Name == "" || topics[t.Name] != nil {
			errs = append(errs, fmt.Errorf("topic %q: a topic needs a unique name", t.Name))
		}
		topics[t.Name] = t
	}
	routes, names := map[publications.Key]*route{}, map[string]bool{}
	for _, p := range cfg.Publishers {
		if p.Name == "" || names[p.Name] {
			errs = append(errs, fmt.Errorf("publisher %q: a publisher needs a unique name", p.Name))
		}
		names[p.Name] = true
		p, err := p.withDefaults()
		if err != nil {
			errs = append(errs, fmt.Errorf("publisher %q: %w", p.Name, err))
		}
		if len(p.Topics) == 0 {
			errs = append(errs, fmt.Errorf("publisher %q has no topics: name those it publishes", p.Name))
		}
		for _, name := range p.Topics {
			key := publications.Key{Topic: name, Publisher: p.Name}
			switch {
			case topics[name] == nil:
				errs = append(errs, fmt.Errorf("publisher %q: there is no topic %q", p.Name, name))
			case routes[key] != nil:
				errs = append(errs, fmt.Errorf("publisher %q names topic %q twice", p.Name, name))
			default:
				routes[key] = &route{
					Key: key, filter: &topics[name].Filter, to: p,
					tracer: tracing.New(cfg.TracerProvider, "publish "+key.String(), trace.SpanKindProducer,
						attribute.String("tidemark.topic", key.Topic), attribute.String("tidemark.publisher", key.Publisher)),
				}
			}
		}
	}
	if len(routes) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("Topics and Publishers are required: there is nothing to publish"))
	}
	return routes, errors.Join(errs...)
}
