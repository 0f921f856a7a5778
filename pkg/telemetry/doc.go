// Package telemetry measures and traces the appends of an application, with Prometheus and OpenTelemetry. A
// program that does not import it links neither.
//
// [NewTracer] measures the appends of a pool's connections. [Trace] is the option of a journal by which
// events carry the trace of their append, so that workers link to it.
//
// Stability: as of version 1, no function changes its meaning.
package telemetry
