// Package kafka is a sink that produces events to a Kafka topic, with the campaign as the key: a
// campaign's events are in one partition, in order.
//
// The producer is idempotent and waits for all replicas in sync. If an event's size or form is
// refused, the broker refuses the whole batch of its partition. Those events are then sent one by
// one, to name only the one at fault. Any other error is an outage.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package kafka
