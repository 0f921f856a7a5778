// Package ndjson exports events from the journal as text and imports them: one JSON object a line.
//
// A line has the fields of an append, without what the journal adds:
//
//	{"campaign_id":"c1","id":"0190…","type":"order_placed","version":1,"intent":"projection_and_replay",
//	"payload":{"total":7},"occurred_at":"2024-05-01T10:00:00Z"}
//
// campaign_id and type are required. Other fields have the journal's defaults, as in an append.
// "aggregate_type", "aggregate_id", "actor", "tags" and "metadata" are allowed too. "seq",
// "position" and "recorded_at" are ignored because the journal assigns them anew, and so is
// "payload_bytes": archives have lines with these fields too. Any other name is
// an error. Blank lines are ignored.
//
// [Export] writes lines in order of position and [Import] appends them in order of the file.
// Exporting, importing into an empty database and exporting again gives the same bytes.
//
// Importing a file twice, or again after an interruption, appends nothing twice: the journal
// recognises an event by its id. A line without an id gets one derived from the source's name, the
// line's number and its text. So a source that grows at its end may be imported repeatedly under one
// name. A source that changes elsewhere may not, unless its lines have ids.
package ndjson
