// Package publications is the operator's half of publishing: how pairs of topic and publisher stand,
// what is parked, which events the journal has lost, and the acts on all of these. pkg/publisher is
// the other half: its relay publishes.
//
// It writes to tidemark.publications, tidemark.parked and tidemark.operator_log, as the relay does:
// each act is one transaction that locks the rows it changes, writes its row of the log, and wakes
// the relays. An act that moves a pair raises the row's generation, so a relay that was publishing
// the pair writes nothing more. All functions are safe for concurrent use.
package publications
