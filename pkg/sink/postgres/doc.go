// Package postgres is a sink that puts events into a table, in the journal's database or in any other.
//
// A batch is one statement, INSERT … ON CONFLICT (campaign_id, event_id) DO NOTHING: an event is in
// the table once however often it is sent, unless a reader has deleted it. The table is created when it
// is missing. A table of your own needs the columns of this one and campaign_id with event_id unique;
// its constraints and triggers may refuse events, which is then that event's failure alone.
//
// Events of a campaign get ascending numbers in "arrival". Across campaigns a number may become
// visible after a higher one: who reads by "arrival > last" misses events.
package postgres
