// Package webhook is a sink that posts events to a URL, one event a request, signed as Standard
// Webhooks says (pkg/webhook).
//
// The answer's status decides, and nothing that comes after it is awaited. 2xx: it was taken. 400,
// 413, 422: the event is refused for good. 410: the endpoint wants no more, the pair is paused. 3xx,
// 401, 403, 404, 429 and the like, an address that cannot be reached: the endpoint as a whole does not
// work, no event is at fault. 5xx, 408, silence and a connection that breaks may be the event's doing:
// it is at fault if one sent after it gets through. Redirects are never followed.
//
// Events of a campaign are sent one after the other, those of different campaigns at the same time, up
// to a limit. When an attempt is given up after its timeout, the endpoint may still be at work on it:
// it may see the next attempt, with the same id, before it is done.
//
// A URL may be anybody's, and lead anywhere. Each address is looked at when it is dialled, after its
// name was resolved, and refused unless it is public or explicitly allowed, so neither a name that
// points inwards nor one that changes its mind gets past. What is read of an answer is bounded in size
// and time.
package webhook
