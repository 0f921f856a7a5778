// Package webhook signs and verifies requests as Standard Webhooks 1.0 says
// (https://www.standardwebhooks.com): the webhook sink signs with it, and receivers verify with
// [Verify], or with any library of that standard.
//
// A request carries three headers: webhook-id, the event's identity, the same however often it is
// sent; webhook-timestamp, the Unix time of this attempt; and webhook-signature, which binds both
// to the body. A signature does not say that the body is new: remember the id, as pkg/inbox does.
//
// All functions are safe for concurrent use. The package has no tables.
package webhook
