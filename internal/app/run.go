package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Run runs a worker until ctx is cancelled.
func Run(ctx context.Context, settings config.Worker, opts Options, logger *slog.Logger) error {
	projections, catalogue, err := load(settings, opts)
	if err != nil {
		return err
	}
	pool, err := connect(ctx, settings)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Check(ctx, pool); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: projections, ConsumerGroup: settings.ConsumerGroup, Schema: settings.Schema, Catalogue: catalogue, Logger: logger, Registerer: registry,
		PollInterval: settings.PollInterval, ClaimCampaigns: settings.ClaimCampaigns, GroupEvents: settings.GroupEvents, LeaseTTL: settings.LeaseTTL,
		Concurrency: settings.Concurrency, NoListen: !settings.Listen, ShutdownTimeout: settings.ShutdownTimeout,
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if settings.HTTPAddr != "off" {
		if err := serve(ctx, g, settings.HTTPAddr, registry, pool, logger); err != nil {
			return err
		}
	}
	names := make([]string, len(projections))
	for i, p := range projections {
		names[i] = p.Spec().Name
	}
	logger.InfoContext(ctx, "worker starts", "consumer_group", settings.ConsumerGroup, "projections", names, "pid", os.Getpid())
	g.Go(func() error {
		if err := p.Run(ctx); err != nil {
			return err
		}
		if ctx.Err() == nil {
			return errors.New("the projector ended by itself")
		}
		return ctx.Err()
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	logger.InfoContext(ctx, "worker stopped")
	return nil
}

// load reads the folder of projections and the catalogue.
func load(settings config.Worker, opts Options) ([]projector.Projection, *journal.Catalogue, error) {
	projections, catalogue := opts.Projections, opts.Catalogue
	var errs []error
	if settings.ProjectionsDir != "" {
		files, err := projector.LoadDir(os.DirFS(settings.ProjectionsDir))
		if err != nil {
			errs = append(errs, fmt.Errorf("projections of %s: %w", settings.ProjectionsDir, err))
		}
		projections = append(projections[:len(projections):len(projections)], files...)
	}
	if settings.Catalogue != "" {
		var err error
		if catalogue, err = journal.LoadCatalogue(os.DirFS(filepath.Dir(settings.Catalogue)), filepath.Base(settings.Catalogue)); err != nil {
			errs = append(errs, err)
		}
	}
	if len(projections) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("there is nothing to project: name a folder of SQL files with --projections-dir or TIDEMARK_PROJECTIONS_DIR"))
	}
	return projections, catalogue, errors.Join(errs...)
}

// connect opens a pool large enough for the worker and checks that the database answers.
func connect(ctx context.Context, settings config.Worker) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(settings.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	cfg.MaxConns = max(cfg.MaxConns, int32(min(settings.Concurrency, 1000))+3) // claim, renew, beat
	cfg.PingTimeout = 5 * time.Second
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "tidemark-worker"
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}
