// Package inbox lets a consumer detect duplicate events. Delivery is at least once: after a crash
// or a lost acknowledgement an event arrives again under the same campaign and event id.
//
// The mark is a row written in the consumer's own transaction, of pgx or database/sql ([journal.SQL]). It
// commits together with the event's effects in that
// database, so they happen exactly once. A concurrent delivery waits for that transaction. It then
// finds the mark or, after a rollback, is the first itself. [Webhook] is an http.Handler that does
// all of this.
//
// A mark lasts [DefaultTTL] by default. Keep it longer than a publisher may be rewound or replayed.
// Each consumer has its own marks. [Pruner] deletes expired ones.
//
// The package owns tidemark.inbox. Its functions are as safe for concurrent use as their
// transactions. Consumers without Postgres can use redisinbox, which guarantees less.
//
// Stability: as of version 1, no function changes its meaning.
package inbox
