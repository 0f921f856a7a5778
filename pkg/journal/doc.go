// Package journal appends events to campaigns and reads them back.
//
// A [Journal] appends events inside the caller's transaction, of pgx or database/sql ([SQL]). They commit
// with it, together with a work item for each consumer group. Events of a campaign are numbered 1, 2, 3 …
// without gaps. An [Expect] makes an append conditional on the campaign's last seq, and event ids make it
// idempotent. The journal is append-only. Append only checks its arguments and calls the SQL function
// tidemark.append, as other languages do. [Journal.Commit] is for callers without a transaction.
//
// Reads go by campaign ([ReadCampaign]) or by position ([ReadAll]). Positions are assigned before
// transactions commit, so ReadAll stops at the writer floor, below which the journal is complete.
// It works on a primary, under READ COMMITTED.
//
// A decision may depend on events of any campaigns. [Decide] folds the events of a [event.Query] into a
// state and returns a [Condition]; [Journal.AppendIf] appends only if no further event matches it. Other
// languages call tidemark.append_if. A [catalogue.Catalogue] lists the event types, what they are
// for, and how payloads of older versions become current: give it to the [Journal] that appends.
//
// An append waits for open transactions that append to the same campaign. Append to several
// campaigns in one call ([Journal.AppendAll]), or two transactions may deadlock (SQLSTATE 40P01).
//
// The package owns tidemark.journal and tidemark.event_tags. All functions and a [Journal] are safe for
// concurrent use. It links nothing but what pgxpool links, and google/uuid.
//
// Stability: as of version 1, no field or function changes its meaning, and structs may get fields.
package journal
