package nats

// Sink is the sink, for tests.
type Sink = sink
