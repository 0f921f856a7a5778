// Package nats is a sink that publishes events to a stream of NATS JetStream, under the event's id as
// Nats-Msg-Id: within the stream's window for duplicates a repeat is not stored again.
//
// A batch is sent without waiting for each acknowledgement, and counts when all have come. It keeps to
// one connection, and gives up with it: what comes later cannot overtake what was lost. An event that
// is larger than the server or the stream takes is refused before anything of its campaign that comes
// later is sent. All else that fails is an outage. A cluster that loses a stream's leader in the
// middle of a batch may store a later event and not an earlier one; with Strict that cannot be, at the
// price of a round trip for each event of a campaign.
package nats
