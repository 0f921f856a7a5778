package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Connections is the most connections of the pool that a relay uses at once, whatever the number of
// pairs. Work that needs one more waits. Listening uses one connection outside the pool.
const Connections = 6

// Config configures a [Relay]. Pool, Topics and Publishers are required.
type Config struct {
	// needs Connections free connections and uses no more; it must stay open until the relay has stopped
	Pool       *pgxpool.Pool
	Topics     []Topic
	Publishers []Publisher

	Catalogue  *catalogue.Catalogue // aliases and upcasters; default: events as appended
	Archive    event.Archive        // reads archived events; default: they are an error
	Logger     *slog.Logger         // default: discard
	Registerer prometheus.Registerer

	// creates a span for each batch, with links to its events' traces; default nil: no spans, at no cost
	TracerProvider trace.TracerProvider

	LeaseTTL time.Duration // how long pairs wait after their process dies; default 30s, at least 1s
	// between looks at the journal while it has nothing new, plus up to half of it; default 500ms
	PollInterval time.Duration
	IdleAfter    int           // consecutive empty polls before the interval doubles; default 3
	IdleMax      time.Duration // the longest interval; default 60s
	NoListen     bool          // rely on polling alone

	PageEvents int   // events read at once; default 1000
	CacheBytes int64 // approximate size of events kept for pairs that may need them; default 16 MiB

	ShutdownTimeout time.Duration // how long current batches may take after Run is cancelled; default 10s
}

// Publisher is a sink, its topics, and how they are published.
type Publisher struct {
	Name   string // required; part of the key of its positions
	Sink   Sink   // required; the relay does not close it
	Topics []string

	Start       Start         // of a new pair; default: the beginning
	BatchSize   int           // most events in a call of the sink; default 100
	Concurrency int           // concurrent batches, of different campaigns; default 4
	Order       Order         // default OrderCampaign
	Timeout     time.Duration // of a batch; default 30s

	OnRefusal  Policy        // what happens to a refused event; default ParkCampaign
	Attempts   int           // before an event is given up; default 25
	RetryBase  time.Duration // wait after an event's first refusal, doubled with each further one; default 500ms
	RetryMax   time.Duration // longest wait after a refusal; default 1m
	BackoffMax time.Duration // longest wait of a pair whose sink fails as a whole; default 10s

	OpenSealed bool // send sealed fields open; default: sealed, so that brokers forget erased subjects too
}

// Order is what a publisher keeps in order.
type Order string

// The orders.
const (
	OrderCampaign Order = "campaign" // each campaign's events; campaigns are sent concurrently
	OrderGlobal   Order = "global"   // all events, by position, one batch after the other
)

// Policy is what happens to an event that the sink refuses by itself, while others get through.
type Policy string

// The policies. An event is retried until its attempts are used up; its campaign waits meanwhile.
const (
	ParkCampaign Policy = "park_campaign" // then its campaign waits for an operator
	ParkEvent    Policy = "park_event"    // then it is skipped and its campaign continues
	Block        Policy = "block"         // the pair waits with it, and then fails
)

// Start is where a new pair starts. Set at most one field; zero is the beginning of the journal.
type Start struct {
	End   bool      // with what is appended from now on
	After int64     // with the first event after this position
	At    time.Time // with the first event recorded then or later
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is required"))
	}
	c.Logger = redact.Logger(cmp.Or(c.Logger, slog.New(slog.DiscardHandler)))
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
	errs = append(errs,
		positive("LeaseTTL", &c.LeaseTTL, 30*time.Second, time.Second),
		positive("PollInterval", &c.PollInterval, 500*time.Millisecond, time.Millisecond),
		positive("IdleAfter", &c.IdleAfter, 3, 1),
		positive("IdleMax", &c.IdleMax, time.Minute, time.Millisecond),
		positive("PageEvents", &c.PageEvents, 1000, 1),
		positive("CacheBytes", &c.CacheBytes, 16<<20, 1),
		positive("ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second, time.Millisecond),
	)
	return c, errors.Join(errs...)
}

func (p Publisher) withDefaults() (Publisher, error) {
	errs := []error{
		positive("BatchSize", &p.BatchSize, 100, 1),
		positive("Concurrency", &p.Concurrency, 4, 1),
		positive("Timeout", &p.Timeout, 30*time.Second, time.Millisecond),
		positive("Attempts", &p.Attempts, 25, 1),
		positive("RetryBase", &p.RetryBase, 500*time.Millisecond, time.Millisecond),
		positive("RetryMax", &p.RetryMax, time.Minute, time.Millisecond),
		positive("BackoffMax", &p.BackoffMax, 10*time.Second, time.Millisecond),
		oneOf("Order", &p.Order, OrderCampaign, OrderGlobal),
		oneOf("OnRefusal", &p.OnRefusal, ParkCampaign, ParkEvent, Block),
	}
	if s := p.Start; s.After < 0 || s.End && (s.After > 0 || !s.At.IsZero()) || s.After > 0 && !s.At.IsZero() {
		errs = append(errs, fmt.Errorf("Start is %+v: set one of End, After and At, or none, and no negative position", s))
	}
	if p.Sink == nil {
		errs = append(errs, errors.New("Sink is required"))
	}
	if p.Order == OrderGlobal {
		p.Concurrency = 1
	}
	return p, errors.Join(errs...)
}

// positive sets *v to its default if it is zero, and refuses values below least.
func positive[T ~int | ~int64](name string, v *T, standard, least T) error {
	if *v = cmp.Or(*v, standard); *v < least {
		return fmt.Errorf("%s is %v, at least %v is needed", name, *v, least)
	}
	return nil
}

// oneOf sets *v to the first choice if it is empty, and refuses values that are no choice.
func oneOf[T ~string](name string, v *T, choices ...T) error {
	if *v = cmp.Or(*v, choices[0]); !slices.Contains(choices, *v) {
		return fmt.Errorf("%s is %q, it may be one of %v", name, *v, choices)
	}
	return nil
}

// Topic is a named part of the journal.
type Topic struct {
	Name string // required
	Filter
}

// Filter selects the events that meet all of its conditions; zero: all events. A tag is "key" or
// "key=value".
type Filter struct {
	EventTypes     []string       `yaml:"event_types"`     // one of these types
	RequiredTags   []string       `yaml:"required_tags"`   // all of these; "key" also matches "key=" with any value
	AnyOfTags      []string       `yaml:"any_of_tags"`     // one of these tags, in the same way
	CampaignPrefix string         `yaml:"campaign_prefix"` // prefix of the campaign's id
	Intents        []event.Intent // one of these intents
}

// Match reports whether the topic has the event.
func (f *Filter) Match(e *event.Event) bool {
	return (len(f.EventTypes) == 0 || slices.Contains(f.EventTypes, e.Type)) &&
		strings.HasPrefix(e.CampaignID, f.CampaignPrefix) &&
		(len(f.Intents) == 0 || slices.Contains(f.Intents, e.Intent)) &&
		!slices.ContainsFunc(f.RequiredTags, func(tag string) bool { return !tagged(e, tag) }) &&
		(len(f.AnyOfTags) == 0 || slices.ContainsFunc(f.AnyOfTags, func(tag string) bool { return tagged(e, tag) }))
}

// has reports whether the topic gets an event. A notice of an erasure goes where one of the erased events
// could have gone: it tells of their campaign. kinds are what it is about; none: it is not a notice.
func (f *Filter) has(e *event.Event, kinds []event.Event) bool {
	if len(kinds) == 0 {
		return f.Match(e)
	}
	named := slices.Contains(f.EventTypes, e.Type)
	return slices.ContainsFunc(kinds, func(kind event.Event) bool {
		if named {
			kind.Type = e.Type
		}
		return f.Match(&kind)
	})
}

// tags returns the tags that the filter names.
func (f *Filter) tags() []string { return slices.Concat(f.RequiredTags, f.AnyOfTags) }

// tagged reports whether the event has the tag, or the key with any value.
func tagged(e *event.Event, tag string) bool {
	return slices.ContainsFunc(e.Tags, func(t string) bool {
		return t == tag || len(t) > len(tag) && t[len(tag)] == '=' && t[:len(tag)] == tag
	})
}

// part is the part of a campaign that a publisher reads for a topic.
type part struct {
	topic       string
	filter      *Filter
	catalogue   *catalogue.Catalogue
	campaign    string
	from, until int64 // the first seq, and a position
	limit       int
}

// read reads events in their current version.
func (p *Publisher) read(ctx context.Context, db event.Querier, of part) (page pages.Page, err error) {
	if page.Events, err = feed.ReadRange(ctx, db, of.campaign, of.from, of.until, of.limit); err != nil {
		return page, err
	}
	if p.OpenSealed {
		page.Faults, err = pages.Open(ctx, db, of.catalogue, page.Events)
	} else {
		page.Faults = pages.Upcast(of.catalogue, page.Events)
	}
	if err == nil {
		page.Notices, err = pages.ReadNotices(ctx, db, of.catalogue, page.Events, of.filter.tags())
	}
	return page, err
}

// batch returns the events of a page that the topic has.
func (of part) batch(page pages.Page) (batch []Event) {
	for i := range page.Events {
		if e := &page.Events[i]; of.filter.has(e, page.Notices[e.Position]) {
			batch = append(batch, Event{Event: *e, Topic: of.topic, fault: page.Faults[e.Position]})
		}
	}
	return batch
}
