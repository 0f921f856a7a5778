// Package monitoring checks the alert rules of deploy/prometheus, the dashboards of deploy/grafana
// and docs/reference/metrics.md against a running worker. It is a separate module because
// Prometheus' parser has many dependencies that the library does not need.
package monitoring
