// Package crash kills, stops and continues worker processes at every step of the loop, and compares
// what is left with the journal.
package crash
