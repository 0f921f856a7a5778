// Package pubsub is a sink that publishes events to a topic of Google Pub/Sub. The ordering key is
// the campaign, so that a subscription with message ordering gets its events in order.
//
// A campaign's events go in one request. If Pub/Sub refuses that request for what is in it, they
// are sent again one by one, which finds out which event it is; it and those after it are not
// published. Any other error is an outage. The client stops a key after an error; the sink lets it
// go on before the campaign is sent again.
//
// The client knows no contexts: what it has been given it sends in its own time, for up to
// send_timeout. A Publish whose context ends leaves it there, and the next one of the same campaign
// waits until it is done.
//
// It is a module of its own, with a worker of its own in cmd/worker: the client would make the
// stock worker half as large again.
package pubsub
