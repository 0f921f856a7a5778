// Package watermill makes any Watermill publisher a sink.
//
// A message's UUID is derived from the event's campaign and id, its payload is the encoder's body,
// and its metadata is the encoder's attributes, "campaign_id", "event_id" and "content_type".
// Partition messages by campaign_id to keep the order of a campaign beyond the publisher.
//
// Messages are published one by one. Every error is an outage unless [Config].Refused decides
// otherwise. Watermill publishers ignore contexts: after its context ends Publish leaves its
// current message to the publisher, and the next Publish of the same campaign waits for it.
//
// It is a separate module, so programs without Watermill do not link it.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package watermill
