package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/internal/scheduler"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// service is a worker that starts, and its parts, which run until ctx ends.
type service struct {
	plan
	settings config.Worker
	opts     Options
	open     ports
	logger   *slog.Logger

	pool      *pgxpool.Pool
	registry  *prometheus.Registry
	traces    trace.TracerProvider // nil: none
	projector *projector.Projector // nil: it projects nothing
	probes    probes
	parts     *errgroup.Group
}

// Run runs a worker until ctx ends.
func Run(ctx context.Context, settings config.Worker, opts Options, logger *slog.Logger) error {
	open, err := openPorts(ctx, settings)
	if err != nil {
		return err
	}
	defer open.close()
	return run(ctx, settings, opts, open, logger)
}

// run runs a worker at the open ports until ctx ends.
func run(ctx context.Context, settings config.Worker, opts Options, open ports, logger *slog.Logger) error {
	planned, faults := newPlan(settings, opts, logger)
	pool, err := connect(ctx, settings, opts, logger)
	if err != nil {
		return errors.Join(faults, err)
	}
	defer pool.Close()
	w := &service{
		plan: planned, settings: settings, opts: opts, open: open, logger: logger, pool: pool,
		registry: prometheus.NewRegistry(), probes: probes{pool: pool},
	}
	if err := w.check(ctx, faults); err != nil {
		return err
	}
	if settings.Traces {
		provider, stop, err := startTraces(ctx, logger)
		if err != nil {
			return err
		}
		defer stop()
		w.traces = provider
	}
	if err := w.makeProjector(); err != nil {
		return err
	}
	w.parts, ctx = errgroup.WithContext(ctx)
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.parts.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	logger.InfoContext(ctx, "worker stopped")
	return nil
}

// start starts the parts.
func (w *service) start(ctx context.Context) error {
	pages, err := w.startAdmin(ctx)
	if err != nil {
		return err
	}
	if err := w.startOperations(ctx); err != nil {
		return err
	}
	w.announce(ctx, pages)
	for _, start := range []func(context.Context) error{w.startRelay, w.startScheduler, w.startHTTP} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	w.startRetention(ctx)
	w.startProjector(ctx)
	return nil
}

// announce logs what the worker does, and where its pages are.
func (w *service) announce(ctx context.Context, pages string) {
	if w.mode.Warning != "" {
		w.logger.WarnContext(ctx, w.mode.Warning, "mode", w.mode.Mode)
	}
	log := w.logger
	if w.mode.From != "" {
		log = log.With("settings", w.mode.From)
	}
	log.InfoContext(ctx, "worker starts", "mode", w.mode.Mode, "consumer_group", w.settings.Projector.ConsumerGroup,
		"projections", slice.Of(w.projections, versioned),
		"publishers", slice.Of(w.routes.Publishers, func(one publisher.Publisher) string { return one.Name }),
		"pages", pages, "health", addressOf(w.open.http), "pid", os.Getpid())
}

// names returns the names of the projections.
func (w *service) names() []string {
	return slice.Of(w.projections, func(p projection.Projection) string { return p.Spec().Name })
}

// versioned returns a projection's name and version, for people.
func versioned(p projection.Projection) string {
	return fmt.Sprintf("%s version %d", p.Spec().Name, p.Spec().Version)
}

// makeProjector makes the projector, unless there is nothing to project.
func (w *service) makeProjector() (err error) {
	w.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if len(w.projections) == 0 && w.mode.Mode != projection.ModeEnqueueOnly {
		return nil
	}
	cfg := projectorConfig(w.settings)
	cfg.Pool, cfg.Projections, cfg.Mode, cfg.Logger = w.pool, w.projections, w.mode.Mode, w.logger
	cfg.Catalogue, cfg.Archive, cfg.Registerer, cfg.TracerProvider = w.types, w.through, w.registry, w.traces
	if w.projector, err = projector.New(cfg); err != nil {
		return err
	}
	w.probes.stuck = append(w.probes.stuck, w.projector.Stuck)
	return nil
}

func projectorConfig(s config.Worker) projector.Config {
	cfg := s.Projector
	cfg.NoListen, cfg.GapRate = !s.Listen, s.GapRate
	if cfg.GapRate == 0 {
		cfg.GapRate = -1 // in projector.Config, 0 means the default
	}
	return cfg
}

// startProjector runs the projector, if there is one.
func (w *service) startProjector(ctx context.Context) {
	if w.projector == nil {
		return
	}
	w.parts.Go(func() error {
		if err := w.projector.Run(ctx); err != nil {
			return err
		}
		if ctx.Err() == nil {
			return errors.New("the projector ended by itself")
		}
		return ctx.Err()
	})
}

// startRelay publishes the routes until ctx ends, then closes their sinks.
func (w *service) startRelay(ctx context.Context) error {
	if len(w.routes.Publishers) == 0 {
		return nil
	}
	relay, err := publisher.New(publisher.Config{
		Pool: w.pool, Topics: w.routes.Topics, Publishers: w.routes.Publishers, Catalogue: w.types, Archive: w.through,
		Logger: w.logger, Registerer: w.registry, LeaseTTL: w.settings.Projector.LeaseTTL,
		PollInterval: w.settings.PublishPollInterval, NoListen: !w.settings.Listen,
		ShutdownTimeout: w.settings.Projector.ShutdownTimeout, TracerProvider: w.traces,
	})
	if err != nil {
		return errors.Join(err, w.routes.Close())
	}
	w.probes.stuck = append(w.probes.stuck, relay.Stuck)
	w.parts.Go(func() error {
		err := relay.Run(ctx)
		if err = errors.Join(err, w.routes.Close()); err != nil {
			return err
		}
		if ctx.Err() == nil {
			return errors.New("the relay ended by itself")
		}
		return ctx.Err()
	})
	return nil
}

// startScheduler makes scheduled appends, if there is no projector, which does so itself.
func (w *service) startScheduler(ctx context.Context) error {
	if w.projector != nil {
		return nil
	}
	watched := &loops.Pulse{}
	s, err := scheduler.New(scheduler.Config{
		Pool: w.pool, Logger: w.logger, Registerer: w.registry, PollInterval: w.settings.Projector.PollInterval,
		Timeout: w.settings.Projector.LeaseTTL, Pulse: watched,
	})
	if err != nil {
		return err
	}
	w.probes.stuck = append(w.probes.stuck, func() []string { return watched.Stuck(time.Now()) })
	w.parts.Go(func() error { s.Run(ctx); return ctx.Err() })
	return nil
}

// startRetention archives campaigns by the policies and brings them back, if there are policies.
func (w *service) startRetention(ctx context.Context) {
	if w.settings.Retention == "" {
		return
	}
	r := retention.Runner{
		Pool: w.pool, Store: w.store, Policies: w.policies, Keep: w.keep, Owner: uuid.NewString(), Logger: w.logger,
	}
	w.parts.Go(func() error { r.Run(ctx); return ctx.Err() })
	if w.keep > 0 {
		w.parts.Go(func() error { r.Serve(ctx); return ctx.Err() })
	}
}
