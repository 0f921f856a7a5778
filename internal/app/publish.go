package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func publishes(settings config.Worker) bool {
	return settings.Publishers != "" || settings.PublishURL != ""
}

// startRelay publishes the routes until ctx ends, then closes their sinks.
func startRelay(ctx context.Context, g *errgroup.Group, pool *pgxpool.Pool, settings config.Worker,
	routes *publishing.Routes, catalogue *journal.Catalogue,
	registry prometheus.Registerer, traces trace.TracerProvider, logger *slog.Logger,
) (*publisher.Relay, error) {
	relay, err := publisher.New(publisher.Config{
		Pool: pool, Topics: routes.Topics, Publishers: routes.Publishers, Catalogue: catalogue, Logger: logger,
		Registerer: registry, LeaseTTL: settings.Projector.LeaseTTL,
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
