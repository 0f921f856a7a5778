// Package outbox answers for the durable queue of work: how far consumer groups are behind the
// journal, and how a group ends.
//
// tidemark.outbox has one row for each consumer group and campaign of an append, written in the
// transaction that appends the events and deleted in the transaction that applies the last of them.
// The SQL function tidemark.append writes these rows, for any language, and a projector registers
// its group and deletes them: neither needs a call of this package. All functions are safe for
// concurrent use.
package outbox
