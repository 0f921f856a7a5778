package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/migrations"
)

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

const readyTimeout = 2 * time.Second

// probes serves health and readiness. Health never asks the database: a worker that waits for the
// database is healthy, and a restarted one would wait again.
type probes struct {
	pool  *pgxpool.Pool
	stuck []func() []string // of each component: returns the loops that are late
}

func (p probes) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", p.health)
	mux.HandleFunc("GET /readyz", p.ready)
}

// health reports whether all loops are in time.
func (p probes) health(w http.ResponseWriter, _ *http.Request) {
	var stuck []string
	for _, of := range p.stuck {
		stuck = append(stuck, of()...)
	}
	if len(stuck) > 0 {
		http.Error(w, "stuck: "+strings.Join(stuck, ", "), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// ready reports whether the database answers and its schema is at least as new as this program.
func (p probes) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := migrations.Check(ctx, p.pool)
	var version *migrations.VersionError
	switch {
	case errors.As(err, &version) && !version.Newer():
		http.Error(w, version.Error(), http.StatusServiceUnavailable)
	case err != nil && version == nil:
		// The error is in the log; it is not for clients.
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
	default:
		_, _ = fmt.Fprintln(w, "ready")
	}
}
