// Package operator declares what operators see and do, once for CLI, API and pages. Package acts lists
// the acts, package views the views. They do not know each other: this package has the parameters that
// both take, and the answers to errors. Package document writes the values for CLI and API.
package operator
