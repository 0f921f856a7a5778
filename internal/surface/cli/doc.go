// Package cli is what our commands have in common towards the person, or the script, that runs
// them.
//
// Data goes to stdout: a table on a terminal, tab-separated lines elsewhere, JSON with --json. All
// else goes to stderr. Colours are for terminals, and not where NO_COLOR is set. Commands end with
// one of the exit codes below.
//
// Each JSON document is an object with a "version", which changes when a field goes or changes its
// meaning, but not when one is added. Lists are never null.
package cli
