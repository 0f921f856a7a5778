package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/publishing"
	"github.com/tidemark-go/tidemark/internal/surface/pages"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// startAdmin serves the pages and the API for operators until ctx ends, if the settings name an
// address, and returns where: "off" if they name none.
func startAdmin(
	ctx context.Context, g *errgroup.Group, settings config.Worker, acts admin.Config, projections []projector.Projection,
	catalogue *journal.Catalogue, routes *publishing.Routes, logger *slog.Logger,
) (pagesURL string, err error) {
	s := settings.Admin
	if s.Addr == "off" {
		return "off", nil
	}
	cfg, err := adminConfig(s)
	if err != nil {
		return "", err
	}
	url := cmp.Or(s.DatabaseURL, settings.DatabaseURL)
	cfg.Logger, cfg.Projections, cfg.Catalogue = logger, projections, catalogue
	for _, s := range settings.Shown {
		cfg.Settings = append(cfg.Settings, pages.Setting(s))
	}
	if cfg.Pool, err = web.NewPool(ctx, url, s.Connections, s.StatementTimeout); err != nil {
		return "", err
	}
	if cfg.Auth.Pool, err = web.NewPool(ctx, url, authConnections, s.StatementTimeout); err != nil {
		cfg.Pool.Close()
		return "", err
	}
	closePools := func() { cfg.Auth.Pool.Close(); cfg.Pool.Close() }
	acts.Pool = cfg.Pool
	if routes != nil {
		acts.Publishers, acts.Topics = routes.Publishers, routes.Topics
	}
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

// authConnections are the connections that look for tokens and sessions: people can log in while
// pages keep the listener's own busy.
const authConnections = 2

// startOperations has the worker do its part of what operators have started, until ctx ends.
func startOperations(
	ctx context.Context, g *errgroup.Group, cfg admin.RunnerConfig, settings config.Worker, routes *publishing.Routes,
) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cfg.Owner = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString())
	cfg.LogRetention = settings.ActsRetention
	if routes != nil {
		cfg.Publishers, cfg.Topics = routes.Publishers, routes.Topics
	}
	runner, err := admin.NewRunner(cfg)
	if err != nil {
		return err
	}
	g.Go(func() error { return runner.Run(ctx) })
	return nil
}

// adminConfig is what the settings say of the admin listener, or all that is wrong with them.
func adminConfig(s config.Admin) (web.Config, error) {
	var errs []error
	cfg := web.Config{Addr: s.Addr, Auth: auth.Config{
		UserHeader: s.UserHeader, RoleHeader: s.RoleHeader,
		Secret: s.ProxySecret,
	}}
	if s.JWTIssuer != "" {
		cfg.Auth.JWT = auth.JWT{
			Issuer: s.JWTIssuer, Audience: s.JWTAudience, KeysURL: s.JWTKeysURL, Header: s.JWTHeader, UserClaim: s.JWTUserClaim,
			RoleClaim: s.JWTRoleClaim,
		}
	}
	if s.Anonymous != "none" {
		role, err := auth.ParseRole(s.Anonymous)
		cfg.Auth.Anonymous, errs = role, append(errs, err)
	}
	for name, list := range map[string]struct {
		text string
		into *[]netip.Prefix
	}{
		"TIDEMARK_ADMIN_FORWARDERS": {s.Forwarders, &cfg.Auth.Forwarders},
		"TIDEMARK_ADMIN_PROXIES":    {s.Proxies, &cfg.Auth.Proxies},
	} {
		for text := range strings.SplitSeq(list.text, ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			network, err := netip.ParsePrefix(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %q is no network: write it as 10.0.0.0/8, or 10.0.0.7/32 for one address",
					name, text))
			}
			*list.into = append(*list.into, network)
		}
	}
	var err error
	if cfg.Payloads.Least, err = auth.ParseRole(s.Payloads); err != nil {
		errs = append(errs, fmt.Errorf("TIDEMARK_ADMIN_PAYLOADS: %w", err))
	}
	if cfg.Payloads.Redact, err = payload.ParsePaths(s.Redact); err != nil {
		errs = append(errs, fmt.Errorf("TIDEMARK_ADMIN_REDACT: %w", err))
	}
	if s.TLSCert != "" || s.TLSKey != "" {
		pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
		if err != nil {
			errs = append(errs, fmt.Errorf("TIDEMARK_ADMIN_TLS_CERT %q and TIDEMARK_ADMIN_TLS_KEY %q: %w", s.TLSCert, s.TLSKey,
				err))
		}
		cfg.TLS = &tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
		}
	}
	return cfg, errors.Join(errs...)
}
