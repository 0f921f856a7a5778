// Package postgres is a sink that inserts events into a table, in the journal's database or in any other.
//
// A batch is one statement, INSERT … ON CONFLICT (campaign_id, event_id) DO NOTHING. However often
// an event is sent, it is in the table once, unless a reader has deleted it. The sink creates a
// missing table. Your own table needs the same columns, and campaign_id with event_id unique. Its
// constraints and triggers may refuse events; only the refused event fails.
//
// Events of a campaign get ascending numbers in "arrival". Across campaigns a number may become
// visible after a higher one, so reading by "arrival > last" misses events.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package postgres
