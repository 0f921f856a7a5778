// Package catalogue describes event types: what they are for, their former names, the versions of their
// payloads and how an older one becomes current, the schema of a payload, and the fields that are about a
// person.
//
// [New] makes a [Catalogue] of [EventType] values. Give it to a journal, which fills in defaults, refuses
// events by it and seals personal fields, and to projectors and publishers, which read old events in their
// current shape. Package yamlfile reads it from a file, and package jsonschema makes the [Schema] of a type.
// [Catalogue.Compare] and [Catalogue.Check] tell what a change of the catalogue does.
//
// A [Sealer] encrypts personal fields with a key for each subject. The keys are in tidemark.keys, wrapped by a
// [Wrapper]. A program without the wrapping key cannot read the fields. Once a subject's key is deleted, no program
// can. A sealed value opens only in its event and at its place in the payload.
//
// The package owns tidemark.keys and tidemark.wrapping_keys. It does not append and does not read by itself. A
// Catalogue and a Sealer are safe for concurrent use.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields.
// Interfaces get no methods.
package catalogue
