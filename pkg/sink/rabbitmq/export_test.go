package rabbitmq

// Sink is the sink, for tests.
type Sink = sink
