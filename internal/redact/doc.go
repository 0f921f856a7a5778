// Package redact removes the values of events from text that is stored, logged or shown.
//
// [Error] is the only way from an error to text. It removes the data that Postgres, encoding/json,
// strconv, time and pgx quote, and every value in the payload, the metadata, the tags, the actor and
// the aggregate id of the given events. Without events it also hides the text of a projection's own
// errors: see [Hidden]. [Logger] does the same with each error that is logged.
//
// A value is recognised in plain form, quoted, in the escapes of JSON, URLs and headers, in any case,
// and if its end is cut off. It is not recognised in other encodings, or if it comes from an event
// that the caller does not pass, such as one that a projection read before.
package redact
