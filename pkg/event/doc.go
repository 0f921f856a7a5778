// Package event declares what is in the journal and how one points at it: events, queries that select
// them, cursors, and the errors of reading. Package journal appends and reads them.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields.
package event
