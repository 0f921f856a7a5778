// Package delivery is what sinks share in Publish: a [Gate] between calls and Close, and the
// [Outcome] of a batch.
package delivery
