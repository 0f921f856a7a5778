// Package app wires a worker: settings, database, projections, the projector, health and metrics.
// Nothing else knows all of them.
package app
