// Package failed keeps the failed campaigns: a row for each projection that is behind its consumer
// group in a campaign, with why, since when, and when it is tried next. A campaign that is being
// rebuilt is behind as well and has such a row, though it has not failed.
//
// A comment that speaks of a pair means such a row: a projection and a campaign.
//
// A pair has one row, which says at which event it stands; the event itself is read from the
// journal each time, so that a fixed handler or a new upcaster takes effect at the next attempt.
// Whatever happens to a pair, an attempt that failed or an operator's act, is a row of the failure
// log, written in the transaction in which it happens.
//
// # What it guarantees
//
// What the projector writes here ([Defer], [Skip], [Move], [Finish], [File]) commits together with
// the effects of the events before, under the campaign's lease, or not at all. Messages and stacks
// are valid UTF-8 without NUL, of bounded size, without passwords and without values of the event's
// payload, metadata and tags as far as they can be told.
//
// An event that an operator has left out ([Resolve]) stays out, of all sets of tables that the
// projection has or will have, until that is taken back ([Unresolve]).
//
// # What it does not
//
// It does not decide what becomes of a failure: that is the projector's policy. It does not keep
// payloads.
//
// The package owns tidemark.deferred, tidemark.failure_log and tidemark.resolutions. All functions
// are safe for concurrent use.
package failed
