// Package webhook is a sink that posts events to a URL, one event a request, signed according to
// Standard Webhooks (pkg/webhook).
//
// The status of the response decides; nothing sent after the response counts. 2xx: the event is
// accepted. 400, 413, 422: the event is refused for good. 410: the endpoint wants no more events,
// the pair is paused. 3xx, 401, 403, 404, 429 and the like, or an unreachable address: the endpoint
// as a whole fails, no event is at fault. 5xx, 408, a timeout or a broken connection: the event is
// at fault if one sent after it succeeds. Redirects are never followed.
//
// Events of a campaign are sent one after the other, those of different campaigns concurrently. After a
// timeout, the endpoint may get the next attempt, with the same id, before it has finished the first.
//
// A URL may lead anywhere. Each address is checked when it is dialled, after name resolution, and
// refused unless it is public or explicitly allowed. Reading a response is limited in size and time.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package webhook
