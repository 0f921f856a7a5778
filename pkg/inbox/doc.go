// Package inbox lets a consumer notice that an event has come before. Events arrive at least once:
// after a crash or a lost acknowledgement, again, under the same identity: campaign and event id.
//
// The mark is a row that is written in the consumer's own transaction ([CheckAndMark] for pgx,
// [CheckAndMarkSQL] for database/sql), beside the event's effects in that database: they commit
// together, so that effects happen exactly once. [Webhook] is an http.Handler that does all of it.
//
// A second delivery at the same time waits for the first one's transaction and then finds the mark,
// or, if that was rolled back, is the first itself.
//
// A mark lasts [DefaultTTL] unless said otherwise. Keep it longer than a publisher may be rewound
// or replayed. Each consumer has marks of its own. [Pruner] deletes what has expired.
//
// The package owns tidemark.inbox. All functions are safe for concurrent use, as far as their
// transactions are. For consumers without Postgres there is redisinbox, which promises less.
package inbox
