// Package lease gives each campaign one owner at a time.
//
// A lease belongs to an owner until it expires, by the database's clock. Every acquisition raises
// its generation, and the row also holds the campaign's checkpoint; the transaction that applies
// events ends with [Keeper.Advance], which changes both only if owner, generation and checkpoint
// are still what the owner believes. So a worker that was stopped, cut off or slow for longer than
// the lease lived cannot change anything when it comes back, whatever it believes. Expiry only
// decides when another may take over; it is never what safety rests on.
//
// The package owns tidemark.leases and tidemark.workers, and the sequence tidemark.waiting by which
// idle workers ask to be notified. It does not find out that a process is dead: its leases simply
// expire.
//
// A [Keeper] is safe for concurrent use.
package lease
