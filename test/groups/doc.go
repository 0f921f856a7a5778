// Package groups adds consumer groups and projections to a running system, and mixes workers that
// know different projections.
package groups
