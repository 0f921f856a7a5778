package projector

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// Config configures a [Projector]. Only Pool and Projections are required.
type Config struct {
	Pool        *pgxpool.Pool // at least Concurrency + 2 connections; stays open when the projector stops
	Projections []Projection

	ConsumerGroup string             // default "default"
	Schema        string             // of the projections' tables; default "public"; created if missing
	Catalogue     *journal.Catalogue // aliases and upcasters; default: payloads as they are
	Logger        *slog.Logger       // default: discard
	Registerer    prometheus.Registerer

	PollInterval   time.Duration // longest wait between looks at the queue; default 2s
	ClaimCampaigns int           // campaigns leased by one claim; default 64
	GroupEvents    int           // events applied in one transaction, at most; default 1000
	GroupBytes     int64         // bytes of payload loaded for one transaction, about; default 8 MiB
	LeaseTTL       time.Duration // how long after a worker's death its campaigns wait; default 30s, at least 1s
	Concurrency    int           // groups applied at the same time; default 4
	NoListen       bool          // rely on polling alone

	RetryBase time.Duration // wait after a projection's first failure on an event, doubled with each further one; default 1s
	RetryMax  time.Duration // longest such wait; default 5m

	ShutdownTimeout time.Duration // how long a group under way may take to finish once Run is cancelled; default 10s

	// OnStep, if set, is called at each step of the loop, from the goroutine that takes it: for tests that stop a worker in the middle, and for tracing.
	OnStep func(Step)
}

// Step is a place in the loop.
type Step string

// The steps, in order.
const (
	StepClaimed   Step = "claimed"   // leases are held
	StepRead      Step = "read"      // the transaction is open, events are read
	StepApplied   Step = "applied"   // projections have queued their effects
	StepCommitted Step = "committed" // checkpoint and effects are committed
)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is required"))
	}
	if c.ConsumerGroup == "" {
		c.ConsumerGroup = "default"
	}
	if c.Schema == "" {
		c.Schema = "public"
	}
	if c.Schema == "tidemark" || strings.HasPrefix(c.Schema, "pg_") {
		errs = append(errs, fmt.Errorf("Schema %q is not for read models: take another", c.Schema))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	errs = append(errs,
		positive("PollInterval", &c.PollInterval, 2*time.Second, time.Millisecond),
		positive("ClaimCampaigns", &c.ClaimCampaigns, 64, 1),
		positive("GroupEvents", &c.GroupEvents, 1000, 1),
		positive("GroupBytes", &c.GroupBytes, 8<<20, 1),
		positive("LeaseTTL", &c.LeaseTTL, 30*time.Second, time.Second),
		positive("Concurrency", &c.Concurrency, 4, 1),
		positive("ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second, time.Millisecond),
		positive("RetryBase", &c.RetryBase, time.Second, time.Millisecond),
		positive("RetryMax", &c.RetryMax, 5*time.Minute, time.Millisecond),
	)
	if c.OnStep == nil {
		c.OnStep = func(Step) {}
	}
	return c, errors.Join(errs...)
}

// positive gives *v its default where it is zero, and refuses what is below least.
func positive[T ~int | ~int64](name string, v *T, standard, least T) error {
	if *v == 0 {
		*v = standard
	}
	if *v < least {
		return fmt.Errorf("%s is %v, at least %v is needed", name, *v, least)
	}
	return nil
}

// New checks the configuration and returns a projector. It does not touch the database.
func New(cfg Config) (*Projector, error) {
	cfg, err := cfg.withDefaults()
	list, byName, indexErr := index(cfg.Projections, cfg.Catalogue)
	if err := errors.Join(err, indexErr); err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	names := make([]string, len(list))
	for i, k := range list {
		names[i] = k.spec.Name
	}
	return &Projector{
		cfg: cfg, projections: list, known: byName, names: names, metrics: metrics, host: host,
		keeper:     lease.Keeper{Group: cfg.ConsumerGroup, Owner: id.String(), TTL: cfg.LeaseTTL},
		searchPath: pgx.Identifier{cfg.Schema}.Sanitize() + ", pg_catalog",
		wake:       make(chan struct{}, 1),
		free:       make(chan struct{}, 1),
		held:       map[string]*holding{},
		average:    1,
	}, nil
}
