// Package api compares the exported names of pkg/ with a list, pkg/api.txt, and what else users touch with
// inventory.txt, so that each new name is a decision, and each one that goes is seen.
package api
