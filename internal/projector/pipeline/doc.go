// Package pipeline runs statements on one connection in few round trips: as batches, as streams where there are
// very many, and in savepoints where some of them may fail. An error says what its statement was for.
package pipeline
