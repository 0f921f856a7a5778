// Package feed is the journal as its readers take it: events, queries of events, the writer floor,
// and reads by campaign, by position, by query, in pages, windows and groups of campaigns. Workers,
// relays, rebuilds and operators' surfaces read through it; pkg/journal shows to users what they
// need of it, by other names for the same types, and appends.
//
// It writes nothing, and takes no lock but what a SELECT takes. All functions are safe for
// concurrent use.
package feed
