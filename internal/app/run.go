package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/internal/scheduler"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/verification"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

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
	mode, modeErr := settings.Outbox.Mode()
	projections, types, err := load(settings, opts, mode.Mode)
	routes, routesErr := publishing.Configured(settings.Publishing, opts.Sinks, logger)
	policies, keep, policiesErr := retain(settings)
	store, storeErr := settings.Archive.Open()
	faults := []error{modeErr, err, routesErr, policiesErr, storeErr, config.CheckRetries(&settings)}
	pool, err := connect(ctx, settings, opts, logger)
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	defer pool.Close()
	versionErr := migrations.Check(ctx, pool)
	var version *migrations.VersionError
	if errors.As(versionErr, &version) && version.Newer() {
		logger.WarnContext(ctx,
			"the schema is newer than this program: migrations run beside the programs of one release before", "schema",
			version.Database, "program", version.Program)
		versionErr = nil
	}
	if versionErr == nil {
		faults = append(faults, copies.Check(ctx, pool), feed.CheckRowSecurity(ctx, pool))
	}
	if versionErr != nil || errors.Join(faults...) != nil {
		return errors.Join(append(faults, versionErr, checkStart(ctx, pool, settings, projections, types,
			versionErr == nil))...)
	}
	routes = cmp.Or(routes, &publishing.Routes{}) // nothing is published
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var traces trace.TracerProvider
	if settings.Traces {
		provider, stop, err := startTraces(ctx, logger)
		if err != nil {
			return err
		}
		defer stop()
		traces = provider
	}
	var through event.Archive
	if store != nil {
		through = archive.NewReader(store, 0)
	}
	probes := probes{pool: pool}
	var p *projector.Projector
	if len(projections) > 0 || mode.Mode == projection.ModeEnqueueOnly {
		cfg := projectorConfig(settings)
		cfg.Pool, cfg.Projections, cfg.Catalogue, cfg.Logger, cfg.Registerer, cfg.Mode, cfg.TracerProvider = pool,
			projections, types, logger, registry, mode.Mode, traces
		cfg.Archive = through
		p, err = projector.New(cfg)
		if err != nil {
			return err
		}
		probes.stuck = append(probes.stuck, p.Stuck)
	}
	g, ctx := errgroup.WithContext(ctx)
	names := slice.Of(projections, func(p projection.Projection) string { return p.Spec().Name })
	acts := admin.Config{Projector: p, Projections: names, Catalogue: types, Archive: store}
	pagesURL, err := startAdmin(ctx, g, settings, opts, open.admin, acts, projections, types, routes, logger)
	if err != nil {
		return err
	}
	if err := startOperations(ctx, g, admin.RunnerConfig{
		Pool: pool, Logger: logger, Projector: p, Projections: names,
		Catalogue: types,
	}, settings, routes); err != nil {
		return err
	}
	if mode.Warning != "" {
		logger.WarnContext(ctx, mode.Warning, "mode", mode.Mode)
	}
	published := slice.Of(routes.Publishers, func(one publisher.Publisher) string { return one.Name })
	log := logger
	if mode.From != "" {
		log = log.With("settings", mode.From)
	}
	log.InfoContext(ctx, "worker starts", "mode", mode.Mode, "consumer_group", settings.Projector.ConsumerGroup,
		"projections", slice.Of(projections, versioned), "publishers", published, "pages", pagesURL,
		"health", addressOf(open.http), "pid", os.Getpid())
	if len(published) > 0 {
		relay, err := startRelay(ctx, g, pool, settings, routes, types, through, registry, traces, logger)
		if err != nil {
			return err
		}
		probes.stuck = append(probes.stuck, relay.Stuck)
	}
	if p == nil { // projectors make scheduled appends themselves
		watched := &pulse.Pulse{}
		s, err := scheduler.New(scheduler.Config{
			Pool: pool, Logger: logger, Registerer: registry, PollInterval: settings.Projector.PollInterval,
			Timeout: settings.Projector.LeaseTTL, Pulse: watched,
		})
		if err != nil {
			return err
		}
		probes.stuck = append(probes.stuck, func() []string { return watched.Stuck(time.Now()) })
		g.Go(func() error { s.Run(ctx); return ctx.Err() })
	}
	if settings.HTTPAddr != "off" {
		if err := collect(ctx, g, pool, settings, mode.Mode, registry, logger); err != nil {
			return err
		}
		serve(ctx, g, open.http, registry, probes, logger)
	}
	if settings.Retention != "" {
		r := retention.Runner{
			Pool: pool, Store: store, Policies: policies, Keep: keep, Owner: uuid.NewString(), Logger: logger,
		}
		g.Go(func() error { r.Run(ctx); return ctx.Err() })
		if keep > 0 {
			g.Go(func() error { r.Serve(ctx); return ctx.Err() })
		}
	}
	if p != nil {
		g.Go(func() error {
			if err := p.Run(ctx); err != nil {
				return err
			}
			if ctx.Err() == nil {
				return errors.New("the projector ended by itself")
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	logger.InfoContext(ctx, "worker stopped")
	return nil
}

// versioned returns a projection's name and version, for people.
func versioned(p projection.Projection) string {
	return fmt.Sprintf("%s version %d", p.Spec().Name, p.Spec().Version)
}

func projectorConfig(s config.Worker) projector.Config {
	cfg := s.Projector
	cfg.NoListen, cfg.GapRate = !s.Listen, s.GapRate
	if cfg.GapRate == 0 {
		cfg.GapRate = -1 // in projector.Config, 0 means the default
	}
	return cfg
}

// checkStart checks the projections when another fault already keeps the worker from starting, so
// that all faults are reported together. Without the schema it checks nothing.
func checkStart(
	ctx context.Context, pool *pgxpool.Pool, settings config.Worker, projections []projection.Projection,
	types *catalogue.Catalogue, schema bool,
) error {
	if !schema || len(projections) == 0 {
		return nil
	}
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: projections, ConsumerGroup: settings.Projector.ConsumerGroup,
		Schema: settings.Projector.Schema, Catalogue: types,
	})
	if err != nil {
		return err
	}
	return p.Check(ctx)
}

// load returns the program's projections and those of the folder, and the catalogue.
func load(
	settings config.Worker, opts Options, mode projection.Mode,
) ([]projection.Projection, *catalogue.Catalogue, error) {
	code := verification.Compiled{Projections: opts.Projections, Catalogue: opts.Catalogue}
	projections, types, err := code.Load(settings.ProjectionsDir, settings.Catalogue)
	if err == nil {
		types, err = settings.WrappingKeys.Seal(types)
	}
	if err == nil && len(projections) == 0 && !publishes(settings) && mode != projection.ModeEnqueueOnly {
		err = errors.New("there is nothing to project or to publish: name a folder of SQL files with --projections-dir or " +
			"TIDEMARK_PROJECTIONS_DIR, or what to publish with TIDEMARK_PUBLISHERS")
	}
	return projections, types, err
}

// connect opens a pool with enough connections for the worker and checks that the database answers.
func connect(
	ctx context.Context, settings config.Worker, opts Options, logger *slog.Logger,
) (*pgxpool.Pool, error) {
	cfg, err := session.Parse(settings.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	session.Before(cfg, opts.BeforeConnect)
	// Five more than groups need: they claim, renew, beat and run operations.
	cfg.MaxConns = max(cfg.MaxConns, int32(min(settings.Projector.Concurrency, 1000))+5)
	if settings.HTTPAddr != "off" {
		cfg.MaxConns++ // the database's figures
	}
	if publishes(settings) {
		cfg.MaxConns += publisher.Connections
	}
	cfg.PingTimeout = 5 * time.Second
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "tidemark-worker"
	}
	pool, err := session.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	var limit, room int32
	switch err := pool.QueryRow(ctx, queryRoom).Scan(&limit, &room); {
	case errors.Is(err, pgx.ErrNoRows):
		return pool, nil
	case err != nil:
		pool.Close()
		return nil, fmt.Errorf("look up the role's connection limit: %w", err)
	}
	if settings.Listen {
		room -= listeners
	}
	if settings.Admin.Addr != "off" {
		room -= int32(min(settings.Admin.Connections, 100)) + authConnections
	}
	if room >= cfg.MaxConns {
		return pool, nil
	}
	pool.Close()
	wanted := cfg.MaxConns
	cfg.MaxConns = max(room, leastConnections)
	cfg.MinConns, cfg.MinIdleConns = min(cfg.MinConns, cfg.MaxConns), min(cfg.MinIdleConns, cfg.MaxConns)
	logger.WarnContext(ctx, "the role's connection limit leaves less than the worker would use: groups wait for each "+
		"other. Raise it with ALTER ROLE … CONNECTION LIMIT, or lower TIDEMARK_APPLY_CONCURRENCY",
		"limit", limit, "wanted", wanted, "pool", cfg.MaxConns)
	if pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

const (
	listeners        = 2 // of projections and publishers, outside the pool
	leastConnections = 3 // to claim, to renew and to apply
)

// retain returns the policies by which campaigns are archived and brought back.
func retain(settings config.Worker) ([]retention.Policy, time.Duration, error) {
	switch {
	case settings.Retention == "":
		return nil, 0, nil
	case settings.Archive.URL == "":
		return nil, 0, errors.New("TIDEMARK_RETENTION names policies, but there is no archive: set TIDEMARK_ARCHIVE_URL too")
	}
	return retention.Load(settings.Retention)
}

func publishes(settings config.Worker) bool {
	return settings.Publishers != "" || settings.PublishURL != ""
}

// startRelay publishes the routes until ctx ends, then closes their sinks.
func startRelay(ctx context.Context, g *errgroup.Group, pool *pgxpool.Pool, settings config.Worker,
	routes *publishing.Routes, types *catalogue.Catalogue, through event.Archive,
	registry prometheus.Registerer, traces trace.TracerProvider, logger *slog.Logger,
) (*publisher.Relay, error) {
	relay, err := publisher.New(publisher.Config{
		Pool: pool, Topics: routes.Topics, Publishers: routes.Publishers, Catalogue: types, Archive: through,
		Logger: logger, Registerer: registry, LeaseTTL: settings.Projector.LeaseTTL,
		PollInterval: settings.PublishPollInterval, NoListen: !settings.Listen,
		ShutdownTimeout: settings.Projector.ShutdownTimeout, TracerProvider: traces,
	})
	if err != nil {
		return nil, errors.Join(err, routes.Close())
	}
	g.Go(func() error {
		err := relay.Run(ctx)
		if err = errors.Join(err, routes.Close()); err != nil {
			return err
		}
		if ctx.Err() == nil {
			return errors.New("the relay ended by itself")
		}
		return ctx.Err()
	})
	return relay, nil
}

// A worker uses little memory, most of it briefly. At Go's default GOGC of 100, a third of its own
// time is garbage collection. So GOGC is 400, and the memory limit bounds what the process holds.
const (
	mostGarbage = 400 // GOGC

	leastMemory = 96 << 20 // lowest limit: below it there is no need to collect earlier
	memoryStep  = 16 << 20 // each change of the limit stops the world

	memoryEvery = time.Second
	memoryPeak  = 5 // readings: a shorter rise is a peak
	liveHeap    = "/gc/heap/live:bytes"
)

// memoryLimit returns the GOMEMLIMIT for the last readings: twice the smallest, so garbage stays
// bounded and collections rare, and at least one and a half times the largest. A peak of a second
// gets less because its memory is free at once.
func memoryLimit(inUse ...uint64) int64 {
	limit := max(2*slices.Min(inUse), 3*slices.Max(inUse)/2)
	return int64(max(leastMemory, (limit+memoryStep-1)/memoryStep*memoryStep))
}

// boundMemory sets GOMEMLIMIT from the live heap after the last collections, until ctx ends.
func boundMemory(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	var inUse []uint64
	for last := int64(0); ; {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		inUse = append(inUse, sample[0].Value.Uint64())
		inUse = inUse[max(0, len(inUse)-memoryPeak):]
		if limit := memoryLimit(inUse...); limit != last {
			debug.SetMemoryLimit(limit)
			last = limit
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
