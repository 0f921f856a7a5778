package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/status"
)

// collect registers the process's metrics, and the database's while this process has the duty, until
// ctx ends.
func (w *service) collect(ctx context.Context) error {
	owner, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tidemark_worker_info", Help: "1.", ConstLabels: prometheus.Labels{
			"consumer_group": w.settings.Projector.ConsumerGroup,
			"mode":           string(w.mode.Mode), "version": version(),
		},
	})
	info.Set(1)
	collector, err := status.NewCollector(status.CollectorConfig{
		Pool: w.pool, Registerer: w.registry, Owner: owner.String(), Logger: w.logger,
	})
	if err := errors.Join(err, w.registry.Register(info), w.registry.Register(poolStats{w.pool})); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	w.parts.Go(func() error { return collector.Run(ctx) })
	return nil
}

func version() string {
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}

// poolStats exports the statistics of a pool. It does not query the database.
type poolStats struct{ pool *pgxpool.Pool }

// Describe implements [prometheus.Collector].
func (p poolStats) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(p, out) }

// Collect implements [prometheus.Collector].
func (p poolStats) Collect(out chan<- prometheus.Metric) {
	s := p.pool.Stat()
	send := func(name, help string, kind prometheus.ValueType, value float64, state ...string) {
		var labels []string
		if len(state) > 0 {
			labels = []string{"state"}
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, labels, nil), kind, value, state...)
	}
	const connections = "Connections to Postgres."
	send("tidemark_pool_connections", connections, prometheus.GaugeValue, float64(s.AcquiredConns()), "acquired")
	send("tidemark_pool_connections", connections, prometheus.GaugeValue, float64(s.IdleConns()), "idle")
	send("tidemark_pool_connections", connections, prometheus.GaugeValue, float64(s.ConstructingConns()), "constructing")
	send("tidemark_pool_max_connections", "Connections that the pool may have.", prometheus.GaugeValue,
		float64(s.MaxConns()))
	send("tidemark_pool_acquires_total", "Connections taken from the pool.", prometheus.CounterValue,
		float64(s.AcquireCount()))
	send("tidemark_pool_acquire_wait_seconds_total", "Time spent in taking connections from the pool.",
		prometheus.CounterValue, s.AcquireDuration().Seconds())
}
