// Package journal appends events to campaigns and reads them back.
//
// An event is appended inside the caller's transaction ([Append] for pgx, [AppendSQL] for
// database/sql) and commits with it, together with a work item for each consumer group. Within a
// campaign events are numbered 1, 2, 3 … without gaps; an [Expect] makes an append conditional on
// where the campaign stands, and an event id makes it safe to repeat. Nothing in the journal can be
// changed or deleted. Other languages call the SQL function tidemark.append, which is all that
// Append does after checking its arguments.
//
// Reads go by campaign ([ReadCampaign]) or by position ([ReadAll]). Positions are handed out before
// transactions commit, so ReadAll keeps to the writer floor, below which the journal is complete.
// It works on a primary, under READ COMMITTED.
//
// A decision may rest on events of any campaigns: [AppendIf] appends under a [Condition] that no
// event has been added which a [Query] selects, and [Decide] folds what the query selects into a
// state and makes the condition. Other languages call tidemark.append_if.
//
// A [Catalogue] says which types of events there are, what they are for, and how payloads of older
// versions become current.
//
// An append waits for other appends to the same campaign whose transactions are open. Append to
// several campaigns in one call ([Journal.AppendAll]), or two transactions may deadlock (SQLSTATE
// 40P01).
//
// The package owns tidemark.journal and tidemark.event_tags. All functions, a [Journal] and a
// Catalogue are safe for concurrent use.
package journal
