// Package redis is a sink that adds events to Redis Streams: one stream for each topic, or by a template.
//
// An entry's id is the event's position in the journal, as 4711-0. Redis takes ids only in ascending
// order, and campaigns overtake one another: an event whose position is below the top's is late, and
// gets the next id that the stream takes, 4711-1. A script adds a batch at once and looks, for each
// event that it cannot add under its position, whether it is there already: by the event's id in the
// entry at its position, or, if it was late, where a hash beside the stream says. What is in the
// stream is not added again; what was trimmed or deleted is, as after an operator's rewind. The hash
// forgets what was late long ago, and such an event would be added again.
//
// Redis acknowledges before its replicas and its disk have an event: a failover may lose what was
// published, unless so many replicas are waited for that the next master is one of them.
package redis
