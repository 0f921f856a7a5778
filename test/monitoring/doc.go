// Package monitoring checks what watches Tidemark: the alert rules of deploy/prometheus, the
// dashboards of deploy/grafana, and docs/reference/metrics.md against a worker that runs. It is a module of
// its own, since Prometheus' parser brings much that the library has no use for.
package monitoring
