// Package kafka is a sink that produces events to a topic of Kafka, with the campaign as the key: a
// campaign's events are in one partition, in order.
//
// The producer is idempotent and waits for all replicas in sync. What a broker refuses for an event's
// own sake (its size, its form) it refuses for the whole batch of a partition; those are then sent one
// by one, so that the event at fault alone is named. Everything else, also a topic that does not exist
// or that may not be written, is taken as an outage: the pair waits, and no event loses an attempt.
package kafka
