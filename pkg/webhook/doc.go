// Package webhook signs and verifies requests according to Standard Webhooks 1.0
// (https://www.standardwebhooks.com). The webhook sink signs with it; receivers verify with
// [Verify], or with any library for that standard.
//
// A request carries three headers: webhook-id, the event's identity, the same for every attempt;
// webhook-timestamp, the Unix time of the attempt; and webhook-signature, which binds both to the
// body. A valid signature does not mean that the event is new: remember the id, as pkg/inbox does.
//
// All functions are safe for concurrent use. The package has no tables.
//
// Stability: as of version 1, no function changes its meaning; signatures follow the standard.
package webhook
