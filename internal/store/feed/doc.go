// Package feed is the journal as its readers take it: events, queries, the writer floor, and reads
// by campaign, position and query. pkg/journal shows users what they need of it, and documents it.
//
// It writes nothing, and takes no lock but what a SELECT takes. All functions are safe for concurrent use.
package feed
