// Package redisinbox lets a consumer without Postgres detect duplicate events. It marks an event
// with a Redis key, evt:processed:CONSUMER:EVENT_ID/CAMPAIGN.
//
// It guarantees less than pkg/inbox, because Redis is not in the consumer's transaction. With
// [Inbox.Do] effects happen at least once. They happen more than once only if a consumer dies
// between its effect and the mark, takes longer than its turn, or Redis loses data.
// [Inbox.CheckAndMark] marks at once, for the whole TTL: a consumer that dies before its effect
// loses the event.
//
// Stability: as of version 1, no function changes its meaning.
package redisinbox
