package tidemarktest

// queryHeld reports whether the journal has events beyond the floor up to which projections read. It takes no locks.
const queryHeld = `SELECT coalesce(max(position), 0) > tidemark.read_floor() FROM tidemark.journal`
