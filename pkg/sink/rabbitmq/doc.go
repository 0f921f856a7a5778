// Package rabbitmq is a sink that publishes events to an exchange of a RabbitMQ, and counts them as
// published when the broker has confirmed them.
//
// Of each campaign one event at a time is on its way, since one that the broker refuses must not be
// overtaken; those of a batch's campaigns go together. A batch of a hundred campaigns is one round
// trip, one of a single campaign as many as it has events.
//
// What the broker does becomes:
//
//   - confirmed: published
//   - returned, because no queue is bound for it: the event is refused, and tried again
//   - too large for the broker, or a routing key of more than 255 bytes: the event is refused for good
//   - not acknowledged, as by a queue that is full: no event's fault, the pair waits
//   - connection blocked, for want of memory or disk: nothing is sent, the pair waits
//   - all else, as an exchange that is missing: the pair waits
package rabbitmq
