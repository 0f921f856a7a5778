// Package tally is the domain of the tests that break things: campaigns of amounts, two projections
// that show every lost, repeated or reordered event, and a comparison of both with a fold of the
// journal.
package tally
