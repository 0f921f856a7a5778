// Package app wires a worker: settings, database, projections, the projector, health and metrics.
package app
