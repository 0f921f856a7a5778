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

// readyTimeout is how long the database may take to answer a probe.
const readyTimeout = 2 * time.Second

// probes is what health and readiness are answered from. Health never asks the database: a worker
// that waits for it is well, and one that is started anew would but wait again.
type probes struct {
	pool  *pgxpool.Pool
	stuck []func() []string // of each component, the loops that are not back in time
}

func (p probes) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", p.health)
	mux.HandleFunc("GET /readyz", p.ready)
}

// health says whether the loops go round.
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

// ready says whether the database answers and has the schema.
func (p probes) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := migrations.Check(ctx, p.pool)
	var version *migrations.VersionError
	switch {
	case errors.As(err, &version) && !version.Newer():
		http.Error(w, version.Error(), http.StatusServiceUnavailable)
	case err != nil && version == nil:
		// why is in the log; it is private here
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
	default:
		_, _ = fmt.Fprintln(w, "ready")
	}
}
