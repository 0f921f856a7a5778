// Package yamlfile reads a catalogue of event types from a YAML file. docs/guides/catalogue.md describes the
// format.
//
// Stability: as of version 1, no function changes its meaning.
package yamlfile
