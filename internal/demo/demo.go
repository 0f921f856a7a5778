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
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
)

// Config configures [Run]. All fields but Rate and one of DatabaseURL and Server are required.
type Config struct {
	Program     string // path of tidemark; workers run its "demo worker"
	DatabaseURL string // empty: of the private Postgres that Server starts
	Server      cli.Server

	Length time.Duration // of the load
	Rate   float64       // events a second; 0: as fast as it goes

	Out    io.Writer // for progress
	Logger *slog.Logger
}

func (c Config) validate() error {
	if c.Length <= 0 || c.Rate < 0 {
		return fmt.Errorf("the length is %s and the rate is %g events a second: the length must be positive, and the rate "+
			"must not be negative", c.Length, c.Rate)
	}
	return nil
}

// Result is the outcome of a run. Its figures cover this run; verification covers the whole journal.
type Result struct {
	Appended   int64 // events that the load generator committed
	Applied    int64 // events that the workers' checkpoints passed since the load began
	Lag        int64 // events appended and not applied
	Duplicates int64 // events counted in the read model that the journal does not have
	Mismatches int64 // rows that differ from the journal, plus events that were committed and not found, or the reverse
}

// Good reports whether every event was applied exactly once and correctly.
func (r Result) Good() bool {
	return r.Appended > 0 && r == Result{Appended: r.Appended, Applied: r.Appended}
}

func (r Result) String() string {
	return fmt.Sprintf("demo: appended=%d applied=%d lag=%d duplicates=%d mismatches=%d", r.Appended, r.Applied, r.Lag,
		r.Duplicates, r.Mismatches)
}

const (
	group        = "default" // the consumer group
	workers      = 3         // processes
	campaigns    = 1000      // played at once
	leaseTTL     = 3 * time.Second
	lanes        = 16          // concurrent appends; one alone would mostly wait for the disk
	interval     = time.Second // of the progress lines; workers report about as often
	startWithin  = 60 * time.Second
	settleWithin = 2 * time.Minute // for the lag to reach 0 after the load
)

// Run runs the demo and stops everything it started, also after an error. If ctx ends first, it
// returns an error.
func Run(ctx context.Context, config Config) (result Result, err error) {
	if err := config.validate(); err != nil {
		return Result{}, err
	}
	if config.DatabaseURL == "" {
		var closeServer func() error
		if config.DatabaseURL, closeServer, err = config.Server(ctx, config.Logger); err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, closeServer()) }()
	}
	if err := migrations.Up(ctx, config.DatabaseURL); err != nil {
		return Result{}, err
	}
	settings, err := session.Parse(config.DatabaseURL)
	if err != nil {
		return Result{}, err
	}
	settings.MaxConns = lanes + 2 // and the progress lines
	session.Text(settings.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return Result{}, err
	}
	defer pool.Close()

	d := &demo{Config: config, pool: pool, begun: time.Now()}
	d.previous.at = d.begun
	if d.load, err = tabletop.NewLoad(tabletop.LoadConfig{
		Pool: pool, Rate: config.Rate, Lanes: lanes,
		Generator: tabletop.NewGenerator(tabletop.GeneratorConfig{
			Seed: uint64(time.Now().UnixMilli()), Campaigns: campaigns, // a seed that was used before appends nothing
		}),
	}); err != nil {
		return Result{}, err
	}
	if d.fleet.folder, err = os.MkdirTemp("", "tidemark-demo-"); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.fleet.folder)) }()
	defer func() { err = errors.Join(err, d.fleet.stop(stopWithin)) }()
	return d.run(ctx)
}

type demo struct {
	Config
	pool  *pgxpool.Pool
	fleet fleet
	load  *tabletop.Load

	begun    time.Time // start of the load; before that, of the run
	before   int64     // events applied before begun
	previous sample
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
	d.say("the load has ended; waiting until all of it is applied")
	last, err := d.settle(ctx)
	if err != nil && !errors.Is(err, errTooLong) { // the result shows the rest
		return Result{}, err
	}
	d.say("comparing every row with a fold of the whole journal")
	report, err := tabletop.Verify(ctx, d.pool, before)
	if err != nil {
		return Result{}, err
	}
	for _, t := range report.Tables {
		d.say("  %-16s %8d rows, %d differ %s", t.Table, t.Rows, t.Mismatches(), t.Example)
	}
	appended, mismatches := d.load.Appended(), report.Mismatches()
	if report.Since != appended {
		d.say("the load generator committed %d events, the journal holds %d of this run", appended, report.Since)
		mismatches += max(appended-report.Since, report.Since-appended)
	}
	return Result{
		Appended: appended, Applied: last.applied, Lag: last.lag, Duplicates: report.Duplicates, Mismatches: mismatches,
	}, nil
}

// start starts the workers and waits until they have applied the events of earlier runs.
func (d *demo) start(ctx context.Context) error {
	for range workers {
		if err := d.fleet.add(d.Program, d.DatabaseURL); err != nil {
			return err
		}
	}
	err := await(ctx, startWithin, func() (bool, error) {
		reports, err := d.reports(ctx)
		return len(reports) == workers, err
	})
	if err != nil {
		return fmt.Errorf("start %d workers: %w%s", workers, err, d.fleet.logs())
	}
	left, err := d.settle(ctx)
	if err != nil {
		return fmt.Errorf("apply what was in the journal before: %w", err)
	}
	d.begun, d.before = time.Now(), left.applied
	d.previous = sample{at: d.begun}
	d.say("%d workers are up; appending for %s", workers, d.Length)
	return nil
}

// show runs the load, prints a line every second and kills a worker halfway.
func (d *demo) show(ctx context.Context) error {
	loading, end := context.WithTimeout(ctx, d.Length)
	defer end()
	loaded := make(chan error, 1)
	go func() { loaded <- d.load.Run(loading) }()

	err := d.watch(loading)
	end()
	return errors.Join(err, <-loaded, ctx.Err())
}

func (d *demo) watch(loading context.Context) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	halfway := time.NewTimer(d.Length / 2)
	defer halfway.Stop()
	killed := false
	for {
		var err error
		select {
		case <-loading.Done():
			if killed || !errors.Is(loading.Err(), context.DeadlineExceeded) {
				return nil
			}
			return d.kill() // a look has taken longer than the second half
		case <-halfway.C:
			killed, err = true, d.kill()
		case <-ticks.C:
			_, err = d.look(loading)
		}
		if err != nil && loading.Err() == nil {
			return err
		}
	}
}

func (d *demo) kill() error {
	victim := d.fleet.workers[workers/2]
	if err := victim.kill(); err != nil {
		return err
	}
	d.say("killed worker %d (pid %d, SIGKILL): the others take over after the lease's %s", victim.number,
		victim.process.Pid, leaseTTL)
	return nil
}

func (d *demo) settle(ctx context.Context) (last sample, err error) {
	err = await(ctx, settleWithin, func() (bool, error) {
		last, err = d.look(ctx)
		return err == nil && last.lag == 0, err
	})
	return last, err
}

// say prints a line. It ignores errors: lost output must not end the demo.
func (d *demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.Out, format+"\n", args...) }

var errTooLong = errors.New("it takes too long")

// await calls ask every [interval] until it returns true or an error, or time is up.
func await(ctx context.Context, within time.Duration, ask func() (bool, error)) error {
	late, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w: not done after %s", errTooLong, within))
	defer cancel()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-late.Done():
			return context.Cause(late)
		}
	}
}
