package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/pages"
	"github.com/tidemark-go/tidemark/internal/surface/web"
)

// startAdmin serves the pages and the API for operators until ctx ends. It returns their URL, or "off" if the
// settings name no address.
func (w *service) startAdmin(ctx context.Context) (pagesURL string, err error) {
	s := w.settings.Admin
	if s.Addr == "off" {
		return "off", nil
	}
	cfg := web.Config{
		Addr: s.Addr, Listener: w.open.admin, Auth: s.Auth, Payloads: s.Payloads, Logger: w.logger,
		Projections: w.projections, Catalogue: w.types,
	}
	if cfg.TLS, err = certificate(s); err != nil {
		return "", err
	}
	url := cmp.Or(s.DatabaseURL, w.settings.DatabaseURL)
	cfg.Settings = slice.Of(w.settings.Shown, func(s config.Setting) pages.Setting { return pages.Setting(s) })
	pool := func(connections int) (*pgxpool.Pool, error) {
		return web.NewPool(ctx, url, connections, s.StatementTimeout, w.opts.BeforeConnect)
	}
	if cfg.Pool, err = pool(s.Connections); err != nil {
		return "", err
	}
	if cfg.Auth.Pool, err = pool(authConnections); err != nil {
		cfg.Pool.Close()
		return "", err
	}
	closePools := func() { cfg.Auth.Pool.Close(); cfg.Pool.Close() }
	cfg.Acts, err = admin.New(admin.Config{
		Pool: cfg.Pool, Projector: w.projector, Projections: w.names(), Catalogue: w.types, Archive: w.store,
		Publishers: w.routes.Publishers, Topics: w.routes.Topics,
	})
	if err != nil {
		closePools()
		return "", err
	}
	server, err := web.New(ctx, cfg)
	if err != nil {
		closePools()
		return "", err
	}
	w.logger.InfoContext(ctx, "admin listener", "address", server.Addr().String(), "tls", cfg.TLS != nil)
	w.parts.Go(func() error {
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
func (w *service) startOperations(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	runner, err := admin.NewRunner(admin.RunnerConfig{
		Pool: w.pool, Logger: w.logger, Projector: w.projector, Projections: w.names(), Catalogue: w.types,
		Owner: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString()), LogRetention: w.settings.ActsRetention,
		Publishers: w.routes.Publishers, Topics: w.routes.Topics,
	})
	if err != nil {
		return err
	}
	w.parts.Go(func() error { return runner.Run(ctx) })
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
