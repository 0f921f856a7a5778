package postgres

// Sink exports sink for tests.
type Sink = sink
