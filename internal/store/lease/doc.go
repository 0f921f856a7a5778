// Package lease gives each campaign one owner at a time.
//
// A lease belongs to an owner until it expires, by the database's clock. Every acquisition raises
// its generation. The row also holds the campaign's checkpoint. The transaction that applies events
// ends with [Keeper.Advance], which changes the row only if owner, generation and checkpoint are
// still what the owner believes. So a worker that was stopped, cut off or slow for longer than its
// lease lived changes nothing when it comes back. Expiry only decides when another owner may take
// over; safety does not depend on it.
//
// The package owns tidemark.leases, workers, crashes and duties, and the sequences tidemark.waiting,
// by which idle workers ask for notifications, and tidemark.awaited, by which programs that wait for
// projections do. It does not detect dead processes: their leases expire.
//
// A [Keeper] is safe for concurrent use.
package lease
