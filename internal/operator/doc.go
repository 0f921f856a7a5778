// Package operator has what operators see and do, once for CLI, API and pages: documents, and the state of a campaign.
//
// Values are documented by [Document], which names fields the same in the CLI and in the API.
package operator
