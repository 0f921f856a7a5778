// Package claim decides what to work on next. [Claimer] leases campaigns that have work and hands
// them to the [Crew]. Without work it waits, until the [Listener] hears of some.
package claim
