// Package inbox lets a consumer notice that an event has come before. Events arrive at least once:
// after a crash or a lost acknowledgement, again, under the same identity: campaign and event id.
//
// With a database the mark is a row that is written in the consumer's own transaction
// ([CheckAndMark] for pgx, [CheckAndMarkSQL] for database/sql), beside the event's effects: they
// are committed together or not at all, so that effects happen exactly once. Effects outside that
// database are not part of it. [Webhook] is an http.Handler that does all of it.
//
// Two deliveries of an event at once are put in a row: the second waits for the first one's
// transaction and then finds the mark, or, if that was rolled back, is the first itself.
//
// A mark lasts [DefaultTTL] unless said otherwise; an event that comes again after that is
// processed again. Keep it longer than a publisher may be rewound or replayed. Each consumer has
// marks of its own. [Prune] deletes what has expired.
//
// The package owns tidemark.inbox. All functions are safe for concurrent use, as far as their
// transactions are. For consumers without Postgres there is redisinbox, which promises less.
package inbox
