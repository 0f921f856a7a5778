// Package outbox is the durable queue of work: one row for each consumer group and each campaign of
// an append, written in the transaction that appends the events and deleted in the transaction that
// applies the last of them.
//
// Rows are never updated. Whether one is being processed follows from the lease of its campaign;
// what failed stands in tidemark.deferred. A row says only that its campaign has work: a worker
// reads on from the campaign's checkpoint, so that one row is enough to bring a campaign to its
// head.
//
// The package owns tidemark.outbox and tidemark.consumer_groups. Rows are written by the SQL
// function tidemark.append, for any language. All functions are safe for concurrent use.
package outbox
