// Package rebuild builds the tables of projections anew: it begins, copies, catches up, swaps and rolls back. With it
// goes what is tidied up in the background.
package rebuild
