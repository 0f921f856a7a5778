package worker

import (
	"bufio"
	"context"
	"encoding/json"
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
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// configEnv turns the test binary into a worker. It holds the worker's [Config].
const configEnv = "TIDEMARK_TEST_WORKER"

// Applying is the step between [kind.StepRead] and [kind.StepApplied]: in the middle of a
// group, with some of its effects written.
const Applying kind.Step = "applying"

// What a worker says on its standard output.
const (
	begun    = "begun" // it hears SIGTERM
	halting  = "halting"
	stopping = "stopping"
)

// parallel is how many tests run at the same time, at least: they wait for leases to expire more than for a processor.
const parallel = 8

// Config is what a worker process is told.
type Config struct {
	URL          string
	Name         string // of its connections: application_name
	LeaseTTL     time.Duration
	GroupEvents  int
	Claim        int // campaigns a claim
	Concurrency  int
	PollInterval time.Duration
	NoListen     bool
	TalliesOnly  bool // it does not know the projection "entries"
	Bomb         Bomb

	HaltAt  kind.Step // the step at which it halts when it first comes there
	Patient bool      // while it halts in a transaction, the server does not end that
}

// Main runs a package's tests as [pgtest.Main] does, or a worker in a process that [Start] made.
func Main(m *testing.M) {
	config := os.Getenv(configEnv)
	if config == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
		pgtest.Main(m)
		return
	}
	if err := run(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(config string) error {
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
	poolConfig.ConnConfig.RuntimeParams["application_name"] = cfg.Name
	poolConfig.MaxConns = int32(max(cfg.Concurrency, 4)) + 2
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return err
	}
	defer pool.Close()

	h := &halt{at: cfg.HaltAt, proceed: make(chan struct{})}
	go h.obey()
	projections := []projector.Projection{tally.Tallies("")}
	if !cfg.TalliesOnly {
		projections = append([]projector.Projection{tally.Entries("", cfg.Bomb.before(h.applying(cfg.Patient)))},
			projections...)
	}
	p, err := projector.New(projector.Config{
		Mode: projector.ModeOutboxApplyOnly, Pool: pool, Projections: projections, LeaseTTL: cfg.LeaseTTL,
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

// halt stops the goroutine that first comes to a step until the test lets it proceed.
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

// applying is for the middle of a group: it halts before the third event of a campaign, with the
// effects of the first two written.
func (h *halt) applying(patient bool) tally.Hook {
	return func(ctx context.Context, g *projector.Group, e journal.Event) error {
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

// obey ends the halt when the test says so, and the process when the test is gone.
func (h *halt) obey() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		close(h.proceed) // the test says it once
	}
	os.Exit(3)
}
