// Package archive moves campaigns from the journal to a store of objects, and back.
//
// An object is a gzip file of JSON lines, one for each event, of many campaigns. Its name has the hash
// of its content, so an interrupted run writes the same object again. [Run] writes an object, reads it
// back and compares it, and only then deletes the events: in one transaction, in which the database
// computes the hash of each campaign's lines and compares it with what was read back. A stub stays, the
// campaign's last event without its content. It keeps the campaign's head, the object and the hash. Events
// with tags stay as stubs too, so that conditions see them.
//
// Appends to an archived campaign return [event.ErrArchived]; [Ask] has workers bring it back.
// Rebuilds, verifications, publishers, exports and looks at the past read through a [Reader]; without one
// they are refused.
//
// [Restore] brings events back with the same seqs, positions, ids and content: the database refuses lines
// of another hash.
//
// The package owns tidemark.archives. It is safe for concurrent use. S3-compatible stores are in the
// module adapters/s3. For others write a [Store], and test it with package archivetest.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields.
// Objects can be read by later versions. Store gets no methods.
package archive
