// Package erasure erases campaigns and subjects from everything that Tidemark keeps, and searches for
// what may be left.
//
// An erasure replaces payloads and metadata in the journal, and keeps the events' places, types, ids
// and times. So order, numbering and proofs stand. Read models are made anew: campaigns are replayed,
// projections across campaigns and those that cannot reset a campaign are rebuilt. Errors that failed
// campaigns, parked events and logs tell of the events go, and so do scheduled appends of an erased
// campaign. Each campaign gets an event of type [EventType], which publishers send.
//
// If fields are sealed ([catalogue.Sealer]), an erasure of subjects deletes their keys. So copies of the
// journal, such as backups and what brokers have, cannot be read either.
//
// An erasure works in transactions of one campaign each, and is one record. The same request continues one
// that was interrupted; while a call carries it out, the same request is refused. Fields that are not sealed
// stay in what was sent already, in WAL and in backups.
//
// The package owns tidemark.erasures, erased_events, erased_subjects, erased_values and erasure_secret. It is
// safe for concurrent use.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields.
// Certificates can be verified by later versions.
package erasure
