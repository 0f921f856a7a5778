// Package api compares the exported names of pkg/ with a list, pkg/api.txt, so that each new name
// is a decision.
package api
