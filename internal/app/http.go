package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
)

// startHTTP serves health, readiness and metrics until ctx ends, if the settings name an address. All parts with
// loops to watch have been started.
func (w *service) startHTTP(ctx context.Context) error {
	if w.settings.HTTPAddr == "off" {
		return nil
	}
	if err := w.collect(ctx); err != nil {
		return err
	}
	mux := http.NewServeMux()
	w.probes.register(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	w.logger.InfoContext(ctx, "health and metrics", "address", w.open.http.Addr().String())
	w.parts.Go(func() error {
		if err := server.Serve(w.open.http); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("health and metrics: %w", err)
		}
		return nil
	})
	w.parts.Go(func() error {
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

const healthcheckTimeout = 3 * time.Second

// newHealthcheck returns the command that asks a worker on this machine whether it is ready, for
// containers without a shell.
func newHealthcheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "healthcheck", Short: "Ask the worker at --http-addr whether it is ready",
		Args: cli.NoArgs,
	}
	set := config.NewSet(cmd.Flags())
	var addr string
	config.HTTPAddr(set, &addr)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := set.Finish(); err != nil {
			return &cli.UsageError{Err: err}
		}
		client := http.Client{Timeout: healthcheckTimeout}
		request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return cli.Exitf(cli.ExitFailed, "ask the worker: %w", err)
		}
		response, err := client.Do(request)
		if err != nil {
			return cli.Exitf(cli.ExitFailed, "ask the worker: %w", err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			reason, _ := io.ReadAll(io.LimitReader(response.Body, 256)) // only for the message
			return cli.Exitf(cli.ExitFailed, "the worker is not ready: %s: %s", response.Status, reason)
		}
		return nil
	}
	return cmd
}
