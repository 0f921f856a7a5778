package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// serve answers /healthz and /readyz, as the probes say, and /metrics until ctx ends.
func serve(
	ctx context.Context, g *errgroup.Group, addr string, registry *prometheus.Registry, probes probes, logger *slog.Logger,
) error {
	mux := http.NewServeMux()
	probes.register(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("health and metrics: %w: choose another address with --http-addr or TIDEMARK_HTTP_ADDR, or turn "+
			"it \"off\"", err)
	}
	logger.InfoContext(ctx, "health and metrics", "address", listener.Addr().String())
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("health and metrics: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(bounded)
		return nil
	})
	return nil
}
