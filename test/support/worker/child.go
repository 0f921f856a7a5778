package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// configEnv turns the test binary into a worker. Its value is the worker's [Config].
const configEnv = "TIDEMARK_TEST_WORKER"

// Applying is the step between [kind.StepRead] and [kind.StepApplied]: in the middle of a group,
// with some of its effects written.
const Applying kind.Step = "applying"

// The lines that a worker prints on its standard output.
const (
	begun    = "begun" // it handles SIGTERM now
	halting  = "halting"
	stopping = "stopping"
)

// parallel is the minimum number of concurrent tests, which wait for leases to expire more than for
// a processor.
const parallel = 8

// Config configures a worker process.
type Config struct {
	URL          string
	Name         string // of its connections: application_name
	LeaseTTL     time.Duration
	GroupEvents  int
	Claim        int // campaigns in one claim
	Concurrency  int
	PollInterval time.Duration
	NoListen     bool
	TalliesOnly  bool // it does not know the projection "entries"
	Totals       bool // it also has the projection "totals"
	Own          bool // it knows the package's own projections, and not those of package tally
	Bomb         Bomb
	Across       int   // partitions: it has the projections across campaigns instead
	Refuses      int64 // an amount that the projections across campaigns refuse, except for the file

	HaltAt  kind.Step // halt when this step is first reached
	Patient bool      // while it halts, the server does not end its transaction
}

// Main runs a package's tests like [pgtest.Main], or the worker in a process that [Start] created. own
// are projections for workers with Config.Own.
func Main(m *testing.M, own ...projection.Projection) {
	config := os.Getenv(configEnv)
	if config == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
		pgtest.Main(m)
		return
	}
	if err := run(config, own); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(config string, own []projection.Projection) error {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if _, err := fmt.Fprintln(os.Stdout, begun); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _, _ = fmt.Fprintln(os.Stdout, stopping) })
	poolConfig, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return err
	}
	session.Encoding(poolConfig.ConnConfig)
	poolConfig.ConnConfig.RuntimeParams["application_name"] = cfg.Name
	poolConfig.MaxConns = int32(max(cfg.Concurrency, 4)) + 2
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return err
	}
	defer pool.Close()

	h := &halt{at: cfg.HaltAt, proceed: make(chan struct{})}
	go h.obey()
	projections := []projection.Projection{tally.Tallies("")}
	switch {
	case cfg.Own:
		projections = own
	case !cfg.TalliesOnly:
		projections = append([]projection.Projection{tally.Entries("", cfg.Bomb.before(h.applying(cfg.Patient)))},
			projections...)
	}
	if cfg.Totals {
		projections = append(projections, tally.Totals())
	}
	if cfg.Across > 0 {
		projections = tally.Across(cfg.Across, cfg.Bomb.before(cfg.refuse(h.applyingAcross(cfg.Patient))))
		if cfg.Patient {
			projections = projections[1:2] // the one whose transaction is at hand
		}
	}
	gapRate := 0
	if cfg.Across > 0 {
		gapRate = -1 // a repaired gap would be work of campaigns
	}
	p, err := projector.New(projector.Config{
		GapRate: gapRate,
		Mode:    projection.ModeOutboxApplyOnly, Pool: pool, Projections: projections, LeaseTTL: cfg.LeaseTTL,
		GroupEvents:    cfg.GroupEvents,
		ClaimCampaigns: cfg.Claim, Concurrency: cfg.Concurrency,
		PollInterval: cfg.PollInterval, NoListen: cfg.NoListen, OnStep: h.step,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("worker", cfg.Name),
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// halt blocks the first goroutine that reaches a step until the test lets it proceed.
type halt struct {
	at      kind.Step
	halted  atomic.Bool
	proceed chan struct{}
}

func (h *halt) step(step kind.Step) {
	if step != h.at || h.halted.Swap(true) {
		return
	}
	_, _ = fmt.Fprintln(os.Stdout, halting)
	<-h.proceed
}

// applying halts in the middle of a group: before the third event of a campaign, with the effects
// of the first two written.
func (h *halt) applying(patient bool) tally.Hook {
	return func(ctx context.Context, g *projection.Group, e event.Event) error {
		if patient && e.Seq == 1 {
			tx, err := g.Tx(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0",
				pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		if h.at != Applying || e.Seq != 3 {
			return nil
		}
		if _, err := g.Tx(ctx); err != nil {
			return err
		}
		h.step(Applying)
		return nil
	}
}

// applyingAcross halts like applying, before the third event of the journal.
func (h *halt) applyingAcross(patient bool) tally.Hook {
	return func(ctx context.Context, g *projection.Group, e event.Event) error {
		if patient {
			g.Queue("SET LOCAL idle_in_transaction_session_timeout = 0")
		}
		if h.at != Applying || e.Position != 3 || g == nil {
			return nil
		}
		if _, err := g.Tx(ctx); err != nil {
			return err
		}
		h.step(Applying)
		return nil
	}
}

var errRefused = errors.New("refused")

// refuse returns a hook that refuses an amount and calls next for all others.
func (c *Config) refuse(next tally.Hook) tally.Hook {
	return func(ctx context.Context, g *projection.Group, e event.Event) error {
		if c.Refuses != 0 && tally.Amount(e) == c.Refuses {
			return errRefused
		}
		return next(ctx, g, e)
	}
}

// obey ends the halt on the test's command, and the process when the test is gone.
func (h *halt) obey() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		close(h.proceed) // sent once
	}
	os.Exit(3)
}
