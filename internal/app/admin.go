package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/pages"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// startAdmin serves the pages and the API for operators at listener until ctx ends. It returns their URL, or
// "off" if the settings name no address.
func startAdmin(
	ctx context.Context, g *errgroup.Group, settings config.Worker, opts Options, listener net.Listener, acts admin.Config,
	projections []projection.Projection, types *catalogue.Catalogue, routes *publishing.Routes, logger *slog.Logger,
) (pagesURL string, err error) {
	s := settings.Admin
	if s.Addr == "off" {
		return "off", nil
	}
	cfg := web.Config{
		Addr: s.Addr, Listener: listener, Auth: s.Auth, Payloads: s.Payloads, Logger: logger,
		Projections: projections, Catalogue: types,
	}
	if cfg.TLS, err = certificate(s); err != nil {
		return "", err
	}
	url := cmp.Or(s.DatabaseURL, settings.DatabaseURL)
	cfg.Settings = slice.Of(settings.Shown, func(s config.Setting) pages.Setting { return pages.Setting(s) })
	pool := func(connections int) (*pgxpool.Pool, error) {
		return web.NewPool(ctx, url, connections, s.StatementTimeout, opts.BeforeConnect)
	}
	if cfg.Pool, err = pool(s.Connections); err != nil {
		return "", err
	}
	if cfg.Auth.Pool, err = pool(authConnections); err != nil {
		cfg.Pool.Close()
		return "", err
	}
	closePools := func() { cfg.Auth.Pool.Close(); cfg.Pool.Close() }
	acts.Pool = cfg.Pool
	acts.Publishers, acts.Topics = routes.Publishers, routes.Topics
	if cfg.Acts, err = admin.New(acts); err != nil {
		closePools()
		return "", err
	}
	server, err := web.New(ctx, cfg)
	if err != nil {
		closePools()
		return "", err
	}
	logger.InfoContext(ctx, "admin listener", "address", server.Addr().String(), "tls", cfg.TLS != nil)
	g.Go(func() error {
		defer closePools()
		return server.Run(ctx)
	})
	scheme := "http"
	if cfg.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + server.Addr().String() + "/", nil
}

// authConnections is the size of the pool for tokens and sessions. It is separate so that people can
// log in while pages use all connections of the other.
const authConnections = 2

// startOperations runs the worker's share of the acts that operators start, until ctx ends.
func startOperations(
	ctx context.Context, g *errgroup.Group, cfg admin.RunnerConfig, settings config.Worker, routes *publishing.Routes,
) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cfg.Owner = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString())
	cfg.LogRetention = settings.ActsRetention
	cfg.Publishers, cfg.Topics = routes.Publishers, routes.Topics
	runner, err := admin.NewRunner(cfg)
	if err != nil {
		return err
	}
	g.Go(func() error { return runner.Run(ctx) })
	return nil
}

func certificate(s config.Admin) (*tls.Config, error) {
	if s.TLSCert == "" && s.TLSKey == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("TIDEMARK_ADMIN_TLS_CERT %q and TIDEMARK_ADMIN_TLS_KEY %q: %w", s.TLSCert, s.TLSKey, err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, nil
}
