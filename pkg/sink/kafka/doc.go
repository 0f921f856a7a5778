// Package kafka is a sink that produces events to a topic of Kafka, with the campaign as the key: a
// campaign's events are in one partition, in order.
//
// The producer is idempotent and waits for all replicas in sync. What a broker refuses for an
// event's size or form it refuses for the whole batch of a partition; those events are then sent
// one by one, so that the one at fault alone is named. Everything else is an outage.
package kafka
