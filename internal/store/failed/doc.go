// Package failed keeps the failed campaigns: a row for each projection that is behind its consumer
// group in a campaign, with the next event, the reason, the first failure and the next retry. A
// campaign that is being rebuilt is behind too and has a row, though it has not failed.
//
// In comments, a failed campaign is one row: one projection in one campaign. Of a projection across
// campaigns, a row is for one of its keys: CampaignID is the key and NextSeq the position of the
// event. The key "-" is that of all events that have none.
//
// Each attempt reads the event from the journal, so a fixed handler or a new upcaster takes effect
// at once. Each failed attempt and each operator's act is logged in the same transaction.
//
// # What it guarantees
//
// What the projector writes here ([Defer], [Skip], [Move], [Finish], [File]) commits together with
// the effects of the events before it, under the campaign's lease, or not at all. Messages and
// stacks are valid UTF-8 without NUL and of bounded size. They hold no passwords and no values of
// payload, metadata or tags, as far as these can be recognized.
//
// An event that an operator left out ([Resolve]) stays out of all present and future sets of tables
// of the projection, until [Unresolve].
//
// # What it does not
//
// It does not decide what to do with a failure: the projector's policy does. It does not keep payloads.
//
// The package owns tidemark.failed, failure_log and resolutions. All functions are safe for concurrent use.
package failed
