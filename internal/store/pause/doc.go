// Package pause stops and resumes work, without losing any of it: that of a consumer group, of one
// projection, or of one campaign.
//
// What is paused only waits. A group's campaigns are not claimed; a projection is filed as behind
// (in tidemark.deferred) for each campaign that moves without it and catches up when it is resumed;
// a campaign's lease is the operator's. Order and exactly-once hold as ever. What is being applied
// at the moment of a pause of a group or a projection still finishes; work on a campaign that is
// paused is dropped and done again later. Appends are not concerned.
//
// Workers notice at their next claim, at the latest after their poll interval. A pause that has
// expired, by the database's clock, is as if it had never been.
//
// The package owns tidemark.pauses. All functions are safe for concurrent use.
package pause
