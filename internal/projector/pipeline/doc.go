// Package pipeline runs statements on one connection in few round trips: in batches, in streams if
// there are very many, and in savepoints if some may fail. An error names its statement's purpose.
package pipeline
