// Package projector keeps read models up to date with the journal, exactly once and in order.
//
// A projection turns events into rows of its own tables: package projection has the kinds, documents, handlers
// and processes, and package sqlfile reads SQL files. A [Projector] serves one consumer group: it claims campaigns
// with work, applies their events to all its projections and moves their checkpoints, many campaigns in one
// transaction. Run any number in any number of processes; they share the campaigns.
//
// # What it guarantees
//
// A projection's rows, the campaign's checkpoint and the deletion of its work items commit
// together, under a fence: a worker that has lost its lease commits nothing. So every event takes
// effect once, however often workers crash, and a campaign's events take effect in the order of
// their seq, without gaps. Effects outside the database (a mail, a call) are not covered: publish
// them instead.
//
// A projection that fails on an event stops before it, for that campaign only. The failed campaign
// stands in tidemark.failed with the reason. It is retried after 1s, 2s, 4s … up to 5m, or waits
// for an operator: the policy of the projection decides by event type and class of the failure. Other
// projections of the campaign, and all other campaigns, go on. Failures of the database or the
// network do not count against the event: the work is released and done again.
//
// A projection that is new to a running system starts with the first event of every campaign and
// joins the others when it has caught up.
//
// # Transactions
//
// Groups are applied under READ COMMITTED with search_path set to the projections' schema,
// enable_seqscan off (statements go by key) and jit off.
//
// The package owns tidemark.projections. A Projector is safe for concurrent use, but do not call
// Run and Drain on one at the same time.
//
// Stability: as of version 1, no field or function changes its meaning, and Config may get fields.
package projector
