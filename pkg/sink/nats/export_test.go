package nats

// Sink exports sink for tests.
type Sink = sink
