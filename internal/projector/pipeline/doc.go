// Package pipeline runs statements on one connection in few round trips: in batches, in streams if
// there are very many, and in savepoints if some may fail. An error says what its statement was
// for.
package pipeline
