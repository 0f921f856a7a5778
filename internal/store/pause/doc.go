// Package pause stops and resumes a consumer group, a projection or a campaign without losing work.
//
// Paused work waits. A paused group's campaigns are not claimed. A paused projection is filed as
// behind (in tidemark.failed) for each campaign that moves without it, and catches up when it is
// resumed. A paused campaign's lease belongs to the operator. Order and exactly-once still hold.
// Work under way finishes when a group or projection is paused; on a paused campaign it is dropped
// and runs again later. Appends go on.
//
// Workers notice at their next claim, within their poll interval. A pause expires by the database's clock.
//
// The package owns tidemark.pauses. All functions are safe for concurrent use.
package pause
