// Package pubsub is a sink that publishes events to a topic of Google Pub/Sub. The ordering key is
// the campaign, so that a subscription with message ordering gets its events in order.
//
// A campaign's events go in one request. If Pub/Sub refuses it for what is in it, they are sent
// again one by one, which finds the event at fault. Any other error is an outage.
//
// The client knows no contexts: what it has been given it sends in its own time, for up to
// send_timeout. A Publish whose context ends leaves it there, and the next one of the same campaign
// waits until it is done.
//
// It is a module of its own, with a worker of its own in cmd/worker: the client would make the
// stock worker half as large again.
package pubsub
