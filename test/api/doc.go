// Package api holds the exported names of pkg/ to a list, pkg/api.txt, so that each new name is a
// decision.
package api
