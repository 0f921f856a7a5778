// Package publisher sends the journal's events to brokers, webhooks and other consumers.
//
// A topic is a filter over the journal; a publisher is a named [Sink]. Each pair of the two is
// published independently: at least once, with the event's stable identity, in the order of each
// campaign. After a crash, a lost acknowledgement or an operator's rewind consumers get events
// again, and detect them by campaign and id. Events arrive in order the first time.
//
// A Sink connects the relay to a broker. To write one, implement two methods, encode with an
// [Encoder], and test it with package publishertest.
//
// No transaction is open during a send. The package owns tidemark.relays and tidemark.ghosts, and
// maintains tidemark.readers and tidemark.parked. Operators act on the latter two with the
// command line, the API and the pages.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields. Sink
// gets no methods; what a sink may do besides is in interfaces of its own.
package publisher
