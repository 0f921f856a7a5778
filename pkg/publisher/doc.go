// Package publisher sends the events of the journal to brokers, webhooks and other consumers.
//
// A topic is a filter over the journal, a publisher a [Sink] with a name. Each pair of the two is
// published on its own: at least once, with the event's stable identity, in the order of each
// campaign. Consumers see an event again after a crash, a lost acknowledgement or an operator's
// rewind, and tell it by its campaign and id; what they see for the first time is in order.
//
// A Sink is all that stands between the relay and a broker. Write one by implementing two methods,
// encode with an [Encoder], and hold it against the rules of package publishertest.
//
// Nothing is sent while a transaction is open. The package owns tidemark.relays and
// tidemark.ghosts, and keeps tidemark.publications and tidemark.parked. Operators act on the latter
// two with the command line, the API and the pages.
package publisher
