// Package outbox is the durable queue of work: one row per consumer group and campaign of an
// append. The transaction that appends the events writes it; the transaction that applies the last
// of them deletes it.
//
// Rows are never updated. The campaign's lease tells whether a row is being processed; failures
// stand in tidemark.failed. A row says only that its campaign has work: a worker reads on from
// the campaign's checkpoint, so one row brings a campaign to its head.
//
// The package owns tidemark.outbox and tidemark.consumer_groups. The SQL function tidemark.append
// writes rows, for any language. All functions are safe for concurrent use.
package outbox
