// Package operator declares what operators see and do, once for CLI, API and pages: acts, views, the
// state of a campaign, and the answers to errors. Package document writes the values for CLI and API.
package operator
