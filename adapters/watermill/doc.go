// Package watermill makes any publisher of Watermill a sink, so that events go wherever Watermill
// goes.
//
// A message's UUID is the event's id, its payload the encoder's body, its metadata the encoder's
// attributes and, whatever the format, "campaign_id" and "content_type". Let what partitions
// messages use campaign_id as the key: the order of a campaign is then kept behind the publisher as
// well.
//
// Messages are handed over one by one. A publisher of Watermill does not say whether it has failed
// as a whole or refuses one message, so every error is taken for an outage unless [Config].Refused
// knows better. It does not know of contexts either: a Publish whose context ends leaves the
// message that is being handed over to its publisher, and the next one of the same campaign waits
// until that is done.
//
// It is a module of its own, so programs without Watermill do not link it.
package watermill
