// Package jsonschema makes schemas for a catalogue of JSON Schemas.
//
// A schema is of draft 2020-12 unless its $schema names another, and "format" is checked. References resolve
// only within the schema and to the drafts' metaschemas: nothing is loaded from files or the network.
//
// Stability: as of version 1, no function changes its meaning.
package jsonschema
