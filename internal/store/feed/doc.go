// Package feed reads the journal: events, queries, the writer floor, and reads by campaign,
// position and query. pkg/journal exports and documents what users need of it.
//
// It writes nothing and takes only the locks of a SELECT. All functions are safe for concurrent
// use.
package feed
