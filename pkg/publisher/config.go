package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/ledger"
)

// Connections is how many connections of the pool a relay uses at once at most, whatever the number
// of its pairs: what needs one more waits. Listening takes one of its own.
const Connections = ledger.Connections

// Config configures a [Relay]. Pool, Topics and Publishers are required.
type Config struct {
	// at least Connections connections to spare, more are not used; stays open when the relay stops
	Pool       *pgxpool.Pool
	Topics     []Topic
	Publishers []Publisher

	Catalogue  *journal.Catalogue // aliases and upcasters; default: events as they were appended
	Logger     *slog.Logger       // default: discard
	Registerer prometheus.Registerer

	// makes a span of each batch, with links to the traces whose context its events carry; default
	// nil: no spans, at no cost
	TracerProvider trace.TracerProvider

	LeaseTTL time.Duration // how long after a process's death its pairs wait; default 30s, at least 1s
	// between looks at the journal when there was nothing, and up to half of it more; default 500ms
	PollInterval time.Duration
	IdleAfter    int           // after so many empty polls the interval doubles; default 3
	IdleMax      time.Duration // up to this; default 60s
	NoListen     bool          // rely on polling alone

	PageEvents int   // events read at once; default 1000
	CacheBytes int64 // of what was read and some pair may still want, about; default 16 MiB

	ShutdownTimeout time.Duration // how long batches under way may take once Run is cancelled; default 10s
}

// Publisher is a sink with what is published to it, and how.
type Publisher struct {
	Name   string // required; part of the key under which its positions are kept
	Sink   Sink   // required; the relay does not close it
	Topics []string

	Start       Start         // of a pair that is new; default: the beginning
	BatchSize   int           // events given to the sink at once, at most; default 100
	Concurrency int           // batches under way at once, of different campaigns; default 4
	Order       Order         // default OrderCampaign
	Timeout     time.Duration // of a batch; default 30s

	OnRefusal  Policy        // what becomes of an event that is refused by itself; default ParkCampaign
	Attempts   int           // until it is given up; default 25
	RetryBase  time.Duration // wait after an event's first refusal, doubled with each further one; default 500ms
	RetryMax   time.Duration // longest such wait; default 1m
	BackoffMax time.Duration // longest wait of a pair whose sink fails as a whole; default 10s
}

// Order is what a publisher keeps in order.
type Order string

// The orders.
const (
	OrderCampaign Order = "campaign" // each campaign's events; campaigns are sent side by side
	OrderGlobal   Order = "global"   // all events, by position, one batch after the other
)

// Policy is what becomes of an event that the sink refuses by itself, while others get through.
type Policy string

// The policies. Under each, an event is tried again until its attempts are used up; its campaign waits meanwhile.
const (
	ParkCampaign Policy = "park_campaign" // its campaign goes on waiting until an operator decides
	ParkEvent    Policy = "park_event"    // it is left out and its campaign goes on
	Block        Policy = "block"         // the pair waits with it, and fails in the end
)

// Start is where a new pair starts: one of its fields says so. The zero value is the beginning of the journal.
type Start struct {
	End   bool      // with what is appended from now on
	After int64     // with the first event after this position
	At    time.Time // with the first event that was recorded then or later
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is required"))
	}
	c.Logger = redact.Logger(cmp.Or(c.Logger, slog.New(slog.DiscardHandler)))
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
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

// positive gives *v its default where it is zero, and refuses what is below least.
func positive[T ~int | ~int64](name string, v *T, standard, least T) error {
	if *v = cmp.Or(*v, standard); *v < least {
		return fmt.Errorf("%s is %v, at least %v is needed", name, *v, least)
	}
	return nil
}

// oneOf gives *v the first of the choices where it is empty, and refuses what is none of them.
func oneOf[T ~string](name string, v *T, choices ...T) error {
	if *v = cmp.Or(*v, choices[0]); !slices.Contains(choices, *v) {
		return fmt.Errorf("%s is %q, it may be one of %v", name, *v, choices)
	}
	return nil
}
