package kafka

// Sink exports sink for tests.
type Sink = sink
