// Package redisinbox lets a consumer without Postgres notice that an event has come before: a key
// of Redis, evt:processed:CONSUMER:EVENT_ID/CAMPAIGN, marks it.
//
// It promises less than pkg/inbox, since Redis is not in the consumer's transaction. With
// [Inbox.Do] effects happen at least once, and once unless a consumer dies between its effect and
// the mark, takes longer than its turn, or Redis loses what it has. [Inbox.CheckAndMark] marks at
// once, for the whole TTL: a consumer that dies after it, before its effect, loses the event.
package redisinbox
