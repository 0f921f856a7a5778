package status

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

const (
	dutyName        = "status"
	defaultInterval = 5 * time.Second
	dutyIntervals   = 3 // life of the duty and of exported figures, in intervals
	dropTimeout     = time.Second
)

// CollectorConfig configures [NewCollector].
type CollectorConfig struct {
	Pool       *pgxpool.Pool         // required
	Registerer prometheus.Registerer // required
	Owner      string                // required: unique among the processes that share the database
	Logger     *slog.Logger          // default none
	Interval   time.Duration         // between readings; default 5 s. The duty and the figures live three of them
	Timeout    time.Duration         // of each section; default 2 s
}

// Collector exports the database's figures to Prometheus. Of the processes that run one, only the
// holder of the duty exports. A scrape returns the last reading and never waits for the database;
// readings older than three intervals are not exported.
type Collector struct {
	cfg    CollectorConfig
	reader *Reader
	errors *prometheus.CounterVec
	latest atomic.Pointer[reading]
}

// reading is a status and when the read began, by the process's clock.
type reading struct {
	status *Status
	at     time.Time
}

// NewCollector returns a registered collector. [Collector.Run] reads the figures.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	if cfg.Pool == nil || cfg.Registerer == nil || cfg.Owner == "" {
		return nil, errors.New("collect the status: Pool, Registerer and Owner are required")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Interval = cmp.Or(cfg.Interval, defaultInterval)
	c := &Collector{cfg: cfg, reader: &Reader{Pool: cfg.Pool, Timeout: cfg.Timeout}, errors: newErrors()}
	return c, errors.Join(cfg.Registerer.Register(c.errors), cfg.Registerer.Register(c))
}

// Run competes for the duty and reads the figures while it has it, until ctx ends. Then it gives the
// duty up. It logs failures and tries again in the next interval.
func (c *Collector) Run(ctx context.Context) error {
	defer c.drop(ctx)
	// A random start spreads replicas that start together.
	for wait := time.Duration(rand.Int64N(int64(c.cfg.Interval)/4 + 1)); loops.Sleep(ctx, wait); wait = c.cfg.Interval {
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Logger.WarnContext(ctx, "database's figures not collected", "error", err)
		}
	}
	return nil
}

func (c *Collector) step(ctx context.Context) error {
	asked := time.Now()
	mine, err := c.duty(ctx)
	if err != nil {
		return err // the last reading stays until it is too old
	}
	if !mine {
		c.latest.Store(nil)
		return nil
	}
	s, err := c.reader.Read(ctx)
	if err != nil {
		return err
	}
	for section, err := range s.Unread {
		c.errors.WithLabelValues(string(section)).Inc()
		c.cfg.Logger.WarnContext(ctx, "part of the database's figures not read", "section", section, "error", err)
	}
	c.latest.Store(&reading{status: s, at: asked})
	return nil
}

func (c *Collector) duty(ctx context.Context) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Interval)
	defer cancel()
	return lease.TakeDuty(ctx, c.cfg.Pool, dutyName, c.cfg.Owner, dutyIntervals*c.cfg.Interval)
}

// drop ends the export before it gives up the duty, so that no two replicas export at once.
func (c *Collector) drop(ctx context.Context) {
	if c.latest.Swap(nil) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	if err := lease.DropDuty(ctx, c.cfg.Pool, dutyName, c.cfg.Owner); err != nil {
		c.cfg.Logger.WarnContext(ctx, "another replica collects the database's figures when this one's turn has run out",
			"error", err)
	}
}

// current returns the status to export, or nil.
func (c *Collector) current() *Status {
	r := c.latest.Load()
	if r == nil || time.Since(r.at) > dutyIntervals*c.cfg.Interval {
		return nil
	}
	return r.status
}
