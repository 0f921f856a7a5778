// Package lookback declares what looking back at read models takes and returns: a projection's rows as of an
// event and what changed between two ([State], [Change]), the events that wrote a row ([Why]), and how the
// rows differ from the journal ([VerifyReport], [Difference]).
//
// A projector does it (Projector.AsOf, Diff, Why and Verify of package projector), and so do the command
// tidemark, the pages and the API. Rows are JSON objects of columns, in the types of Postgres.
//
// Stability: as of version 1, no field changes its meaning, and structs may get fields.
package lookback
