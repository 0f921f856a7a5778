// Package ndjson carries events between the journal and text: one JSON object a line.
//
// A line holds what an append takes, and nothing that the journal adds:
//
//	{"campaign_id":"c1","id":"0190…","type":"order_placed","version":1,"intent":"projection_and_replay","payload":{"total":7},"occurred_at":"2024-05-01T10:00:00Z"}
//
// Required are campaign_id and type. What is left out gets the journal's default, as in an append;
// "aggregate_type", "aggregate_id", "actor", "tags" and "metadata" may stand there as well. "seq",
// "position" and "recorded_at", which the journal gives anew, are read over; any other name is a
// mistake. Blank lines mean nothing.
//
// [Export] writes the lines in order of position and [Import] appends them in order of the file:
// exporting, importing into an empty database and exporting again gives the same bytes.
//
// Importing a file twice, or again after an interruption, appends nothing twice: the journal knows
// an event by its id. A line without an id is given one that follows from the name of the source,
// the line's number and its text. So a source that grows at its end may be imported again and
// again, under the same name; one that is changed above its end may not, unless its lines have ids.
package ndjson
