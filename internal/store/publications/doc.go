// Package publications is the operator's side of publishing: the state of pairs of topic and
// publisher, parked events, events the journal has lost, and the acts on them. The relay in
// pkg/publisher does the publishing.
//
// Each act is one transaction on tidemark.readers, tidemark.parked and tidemark.operator_log.
// It locks the rows it changes, writes a row of the log, and wakes the relays. An act that moves a
// pair raises its generation, so a relay that was publishing it writes nothing more. All functions
// are safe for concurrent use.
package publications
