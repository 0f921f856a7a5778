// Package tally is the domain of the tests that break things: campaigns to which amounts are added,
// two projections that show every event lost, repeated or out of order, and the comparison of both
// with a fold of the journal.
package tally
