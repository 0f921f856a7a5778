package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/migrations"
)

// Config says where and what is shown. All other fields than DatabaseURL are required.
type Config struct {
	Program     string // path of tidemark, whose "demo worker" the workers are
	DatabaseURL string // empty: TIDEMARK_DATABASE_URL, or the private server of the checkout

	Length    time.Duration // of the load
	Rate      float64       // events a second; 0: as fast as it goes
	Campaigns int           // tables that play at once
	Seed      uint64        // of the generator; a seed that was played on this database appends nothing
	Workers   int           // processes, at least 2: one is killed
	LeaseTTL  time.Duration // after which another worker takes over from a killed one

	Out    io.Writer // for the view
	Logger *slog.Logger
}

func (c Config) validate() error {
	var mistakes []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			mistakes = append(mistakes, fmt.Errorf(format, args...))
		}
	}
	check(c.Length > 0, "the length is %s, it must be positive", c.Length)
	check(c.Rate >= 0, "the rate is %g events a second, it must not be negative", c.Rate)
	check(c.Campaigns > 0, "%d campaigns: it takes at least one", c.Campaigns)
	check(c.Workers >= 2, "%d workers: it takes at least two, since one is killed", c.Workers)
	check(c.LeaseTTL >= time.Second, "the lease TTL is %s, it must be at least a second", c.LeaseTTL)
	return errors.Join(mistakes...)
}

// Result is what came of a run. Its figures are this run's; verification covers the whole journal.
type Result struct {
	Appended   int64 // events that the load generator has committed
	Applied    int64 // events that the workers' checkpoints have moved over since it began
	Lag        int64 // events appended and not applied
	Duplicates int64 // events counted in the read model beyond those in the journal
	Mismatches int64 // rows that are not what the journal says, and events committed that the journal does not hold
}

// Good says whether everything appended was applied, once, and rightly.
func (r Result) Good() bool {
	return r.Appended > 0 && r.Applied == r.Appended && r.Lag == 0 && r.Duplicates == 0 && r.Mismatches == 0
}

// String is the demo's last line.
func (r Result) String() string {
	return fmt.Sprintf("demo: appended=%d applied=%d lag=%d duplicates=%d mismatches=%d", r.Appended, r.Applied, r.Lag,
		r.Duplicates, r.Mismatches)
}

const (
	group        = "default" // the consumer group
	lanes        = 16        // appends at the same time: one alone would wait for the disk most of the time
	startWithin  = 60 * time.Second
	settleWithin = 2 * time.Minute // for the lag to reach 0 once nothing is appended any more
)

// Run shows the demo and stops everything it started, whatever happens. Cancelling ctx ends it early, with an error.
func Run(ctx context.Context, config Config) (result Result, err error) {
	if err := config.validate(); err != nil {
		return Result{}, err
	}
	if config.DatabaseURL == "" {
		var closeServer func() error
		if config.DatabaseURL, closeServer, err = devpg.URL(ctx, config.Logger); err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, closeServer()) }()
	}
	if err := migrations.Up(ctx, config.DatabaseURL); err != nil {
		return Result{}, err
	}
	pool, err := openPool(ctx, config.DatabaseURL)
	if err != nil {
		return Result{}, err
	}
	defer pool.Close()

	d := &demo{Config: config, pool: pool, screen: screen{config.Out}}
	logs, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(logs)) }()
	d.fleet = newFleet(config.Program, logs, config.DatabaseURL, config.LeaseTTL)
	defer func() { err = errors.Join(err, d.fleet.stop()) }()
	return d.run(ctx)
}

func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = lanes + 2 // and the view's
	return pgxpool.NewWithConfig(ctx, config)
}

// demo is a run under way.
type demo struct {
	Config
	pool   *pgxpool.Pool
	screen screen
	fleet  *fleet
	meter  *meter
	load   *tabletop.Load

	casualty *casualty // nil: no worker is to be replaced
}

func (d *demo) run(ctx context.Context) (Result, error) {
	if err := d.start(ctx); err != nil {
		return Result{}, err
	}
	before, err := feed.Floor(ctx, d.pool)
	if err != nil {
		return Result{}, err
	}
	if err := d.show(ctx); err != nil {
		return Result{}, err
	}
	d.screen.say("the load has ended; waiting until all of it is applied")
	last, err := d.settle(ctx)
	if err != nil && !errors.Is(err, errTooLong) { // the result says how much is left
		return Result{}, err
	}
	d.screen.show(last)
	d.screen.say("comparing every row with a fold of the whole journal")
	report, err := tabletop.Verify(ctx, d.pool, before)
	if err != nil {
		return Result{}, err
	}
	d.tell(report)
	appended, mismatches := d.load.Appended(), report.Mismatches()
	if report.Since != appended {
		d.screen.say("the load generator committed %d events, the journal holds %d of this run", appended, report.Since)
		mismatches += max(appended-report.Since, report.Since-appended)
	}
	return Result{
		Appended: appended, Applied: last.applied, Lag: last.lag, Duplicates: report.Duplicates, Mismatches: mismatches,
	}, nil
}

// start brings the workers up and lets them finish what a former run left.
func (d *demo) start(ctx context.Context) error {
	var err error
	if d.meter, err = newMeter(ctx, d.pool, d.fleet); err != nil {
		return err
	}
	for range d.Workers {
		if err := d.fleet.add(); err != nil {
			return err
		}
	}
	err = await(ctx, startWithin, func() (bool, error) {
		sample, err := d.sample(ctx)
		return err == nil && sample.up() == d.Workers, err
	})
	if err != nil {
		return fmt.Errorf("start %d workers: %w%s", d.Workers, err, d.fleet.logs())
	}
	if _, err = d.settle(ctx); err != nil {
		return fmt.Errorf("apply what was in the journal before: %w", err)
	}
	d.meter.begin()
	d.screen.say("%d workers are up; appending for %s (seed %d)", d.Workers, d.Length, d.Seed)
	return nil
}

// settle waits until nothing is left to apply.
func (d *demo) settle(ctx context.Context) (last sample, err error) {
	err = await(ctx, settleWithin, func() (bool, error) {
		last, err = d.sample(ctx)
		if err != nil || last.lag == 0 {
			return true, err
		}
		d.screen.show(last)
		return false, nil
	})
	return last, err
}

// sample measures how it stands. It fails when a worker has ended by itself.
func (d *demo) sample(ctx context.Context) (sample, error) {
	if err := d.fleet.check(); err != nil {
		return sample{}, err
	}
	s, err := d.meter.read(ctx)
	if err != nil {
		return sample{}, err
	}
	return s, d.relief(ctx)
}

// tell says what was compared, and what differs.
func (d *demo) tell(report tabletop.Report) {
	for _, t := range report.Tables {
		d.screen.say("  %-16s %8d rows, %d differ", t.Table, t.Rows, t.Mismatches())
		if t.Example != "" {
			d.screen.say("    for example: %s", t.Example)
		}
	}
}
