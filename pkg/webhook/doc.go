// Package webhook signs and verifies requests as Standard Webhooks 1.0 says
// (https://www.standardwebhooks.com): Tidemark's webhook sink signs with it, and programs that receive its
// requests verify with [Verify], or with any library of that standard.
//
// A request carries three headers: webhook-id, the event's identity (its id, a slash, its
// campaign), which stays the same however often it is sent; webhook-timestamp, the seconds since
// 1970 at which this attempt was made; and webhook-signature, which binds both to the body. A
// signature that verifies says who sent the body and when. It does not say that the body is new:
// remember the id, as pkg/inbox does.
//
// All functions are safe for concurrent use. The package has no tables.
package webhook
