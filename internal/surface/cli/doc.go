// Package cli has the common behaviour of all commands.
//
// Data goes to stdout: a table on a terminal, tab-separated lines elsewhere, JSON with --json.
// Everything else goes to stderr. Only terminals get colours, unless NO_COLOR is set. Commands end with
// one of the exit codes below.
//
// Each JSON document is an object with a "version". It changes when a field is removed or changes its
// meaning, not when a field is added. Lists are never null.
package cli
