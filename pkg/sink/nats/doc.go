// Package nats is a sink that publishes events to a NATS JetStream stream, with the event's
// identity as Nats-Msg-Id: a repeat within the stream's duplicate window is not stored again.
//
// A batch is sent without waiting for each acknowledgement, and succeeds when all have come. It fails
// with its connection, so later events cannot overtake lost ones. An event too large for the server or
// the stream is refused before any later one of its campaign is sent. Any other error is an outage. A
// cluster that loses a stream's leader in the middle of a batch may store a later event and not an
// earlier one. Strict prevents that, at the price of a round trip for each event of a campaign.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package nats
