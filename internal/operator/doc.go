// Package operator has what operators see and do, once for CLI, API and pages: acts, views, the state of a campaign,
// and what is answered to errors.
//
// Values are documented by package document, which names fields the same in the CLI and in the API.
package operator
