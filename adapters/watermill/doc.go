// Package watermill makes any publisher of Watermill a sink, so that events go wherever Watermill
// goes.
//
// A message's UUID is the event's id, its payload the encoder's body, its metadata the encoder's
// attributes, "campaign_id" and "content_type". Partition messages by campaign_id to keep the order
// of a campaign behind the publisher.
//
// Messages are handed over one by one. Every error is an outage unless [Config].Refused knows
// better. A publisher of Watermill knows no contexts: a Publish whose context ends leaves its
// message there, and the next one of the same campaign waits until that is done.
//
// It is a module of its own, so programs without Watermill do not link it.
package watermill
