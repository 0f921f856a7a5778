// Package publications is the operator's half of publishing: how pairs of topic and publisher stand,
// what is parked, which events the journal has lost, and the acts on all of these. pkg/publisher is
// the other half: its relay publishes.
//
// Each act is one transaction on tidemark.publications, tidemark.parked and tidemark.operator_log
// that locks the rows it changes, writes its row of the log, and wakes the relays. An act that
// moves a pair raises its generation, so a relay that was publishing it writes nothing more. All
// functions are safe for concurrent use.
package publications
