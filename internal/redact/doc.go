// Package redact takes the values of events out of text that is stored, logged or shown.
//
// [Error] is the one way from an error to text. It knows what Postgres, encoding/json, strconv,
// time and pgx quote of data, and it takes out every value of the payload, the metadata and the
// tags of the events that the caller names. Without events it shows no text of a projection's own:
// see [Hidden]. [Logger] does the same with each error that is logged.
//
// A value is recognised as it is, quoted, escaped as JSON, URLs and headers escape, in capitals or
// not, and cut off at its end. It is not recognised if it is encoded otherwise, or if it comes from
// an event that the caller does not name, such as one that a projection has read before.
package redact
