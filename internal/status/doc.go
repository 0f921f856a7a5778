// Package status is the one read model of how it stands with a Tidemark: the command line, the API,
// the pages and the metrics all show it, so that they never disagree.
//
// It owns no table. A [Reader] puts together what the packages answer that own them, section by
// section, so that a page reads only what it shows; what it adds of its own is the health of
// Postgres ([Postgres]), speeds from two readings ([Status.Compare]) and what is wrong
// ([Status.Problems]). A [Collector] exports it all to Prometheus, from one replica.
//
// Every section costs about the same however much is in the tables: docs/adr/0009. A [Reader] and a
// [Collector] are safe for concurrent use, a [Status] is not.
package status
