// Package webhook is a sink that posts events to a URL, one event a request, signed as Standard
// Webhooks says (pkg/webhook).
//
// The answer's status decides, and nothing that comes after it is awaited. 2xx: it was taken. 400,
// 413, 422: the event is refused for good. 410: the endpoint wants no more, the pair is paused. 3xx,
// 401, 403, 404, 429 and the like, an address that cannot be reached: the endpoint as a whole does not
// work, no event is at fault. 5xx, 408, silence and a connection that breaks may be the event's doing:
// it is at fault if one sent after it gets through. Redirects are never followed.
//
// Events of a campaign are sent one after the other, those of different campaigns at the same time.
// When an attempt is given up after its timeout, the endpoint may see the next one, with the same
// id, before it is done.
//
// A URL may lead anywhere. Each address is checked when it is dialled, after its name was resolved,
// and refused unless it is public or explicitly allowed. What is read of an answer is bounded in
// size and time.
package webhook
