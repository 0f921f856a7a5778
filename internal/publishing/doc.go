// Package publishing reads what is to be published where: from one YAML file (docs/guides/publishing.md
// describes it), or, in the simple case, from a URL.
//
// All mistakes are reported together, each with its line.
package publishing
