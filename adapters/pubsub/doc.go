// Package pubsub is a sink that publishes events to a topic of Google Pub/Sub. The ordering key is
// the campaign, so a subscription with message ordering gets its events in order.
//
// A campaign's events go in one request. If Pub/Sub refuses its content, they are sent again one by
// one to find the event at fault. Any other error is an outage.
//
// The client ignores contexts: it sends what it was given for up to send_timeout. After its context ends
// Publish leaves those messages to the client, and the next Publish of the same campaign waits for them.
//
// It is a separate module with its own worker in cmd/worker, because the client would make the
// stock worker half as large again.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package pubsub
