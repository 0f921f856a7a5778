package kafka

// Sink is the sink, for tests.
type Sink = sink
