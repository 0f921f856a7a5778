// Package across applies projections across campaigns: they see the events of all campaigns in the
// order of position, below the writer floor. Each partition of such a projection is a reader of the
// journal with a place (internal/store/ledger), which one process holds. The transaction that writes
// the partition's rows moves its place, fenced by owner and generation. A process reads the journal
// once for all of its partitions that are near each other.
//
// An event that fails holds back its key: a row of tidemark.failed, whose campaign_id is the key
// and whose next_seq is the event's position. Other keys go on.
package across
