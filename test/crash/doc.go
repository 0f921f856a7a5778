// Package crash kills, stops and continues worker processes at every step of the loop, then
// compares the read models with the journal.
package crash
