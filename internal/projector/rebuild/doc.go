// Package rebuild rebuilds the tables of projections: it begins, copies, catches up, swaps and
// rolls back. It also deletes old data and repairs gaps in the background.
package rebuild
