package failed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Record is something that happened to a pair, or that an operator did: a row of tidemark.failure_log.
// Fields that do not apply are zero.
type Record struct {
	ID          int64     // grows with time
	At          time.Time // by the database's clock
	Act         string    // one of [Acts]
	Group       string    // consumer group
	Projection  string    // empty: the whole group
	Version     int       // of the projection
	CampaignID  string    // empty: all
	Seq         int64     // of the event
	EventID     *uuid.UUID
	EventType   string
	Attempt     int // failures at the event so far
	Class       string
	Code        string
	Message     string
	Stack       string
	Fingerprint string
	Worker      string // that failed
	Actor       string // who acted; empty: no operator
	Reason      string
}

// Acts answers the kinds of records: those of workers, then those of operators.
func Acts() []string {
	return []string{
		"failed", "dead", "skipped", "crashed", "recovered",
		"requeued", "resolved", "unresolved", "replayed", "repaired", "paused", "resumed",
		"removed", "rebuild_began", "rebuilt", "rebuild_aborted", "rolled_back",
	}
}

// LogFilter chooses records. The zero value of a field leaves it open.
type LogFilter struct {
	Group       string
	Projection  string
	CampaignID  string
	Fingerprint string
	Actor       string
	Acts        []string // any of them, of [Acts]
	Before      int64    // only records with a smaller ID: that of the last record of the page before
	Limit       int      // at most so many; 0: 100
}

// History answers what f chooses of the log, newest first. With CampaignID it reads that campaign's
// records; without, it reads the log backwards until it has enough. For the page that follows, set
// f.Before to the ID of the last one.
func History(ctx context.Context, db journal.Querier, f LogFilter) ([]Record, error) {
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("read the failure log: %w", err)
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Record], "read the failure log",
		queryHistory, pgx.QueryExecModeCacheDescribe, f.Group, f.Projection, f.CampaignID, f.Fingerprint, f.Actor,
		f.Acts, f.Before, cmp.Or(f.Limit, listLimit))
}

func (f LogFilter) validate() error {
	errs := texts(f.Group, f.Projection, f.CampaignID, f.Fingerprint, f.Actor)
	for _, a := range f.Acts {
		if !slices.Contains(Acts(), a) {
			errs = append(errs, fmt.Errorf("Acts holds %q: known are %q", a, Acts()))
		}
	}
	if f.Before < 0 {
		errs = append(errs, fmt.Errorf("Before is %d: take the ID of a record", f.Before))
	}
	if f.Limit < 0 {
		errs = append(errs, fmt.Errorf("Limit is %d: it must not be negative", f.Limit))
	}
	return errors.Join(errs...)
}

// Write writes to tidemark.failure_log, in the transaction in which it happens, an act on a whole
// projection or, where projection is "", to its consumer group: what is one of [Acts], such as
// 'removed'. Acts on single pairs write their rows themselves. It blocks no other transaction.
func Write(ctx context.Context, tx pgx.Tx, what, group, projection string, act Act) (err error) {
	defer rows.Explain(&err, "write the failure log")
	if err := act.validate(false); err != nil {
		return err
	}
	switch {
	case !slices.Contains(Acts(), what):
		return fmt.Errorf("what is %q: known are %q", what, Acts())
	case group == "":
		return fmt.Errorf("name the consumer group that was %s", what)
	}
	_, err = tx.Exec(ctx, queryWrite, what, group, projection, act.By, act.Reason)
	return err
}

// Prune deletes up to limit rows of the failure log that are older than olderThan, the oldest
// first. It answers how many: 0 also while another replica prunes. What became of pairs that are
// still deferred stands in their own rows and stays.
func Prune(ctx context.Context, db rows.Execer, olderThan time.Duration, limit int) (int64, error) {
	if olderThan <= 0 || limit < 1 {
		return 0, fmt.Errorf("prune the failure log: %d rows older than %v: use a positive age and limit", limit, olderThan)
	}
	return rows.Exec(ctx, db, "prune the failure log", queryPrune, olderThan, limit)
}

// Skipped answers, by campaign, the events that a projection has gone past without applying them,
// because its policy said so, as far back as the log of failures is kept. What operators have left
// out is for [ResolutionsOf] to say.
func Skipped(
	ctx context.Context, db journal.Querier, projection string, campaignIDs []string,
) (map[string][]int64, error) {
	skipped := map[string][]int64{}
	var id string
	var seq int64
	err := rows.Each(ctx, db, []any{&id, &seq}, func() error {
		skipped[id] = append(skipped[id], seq)
		return nil
	}, "read which events were skipped", querySkipped, projection, campaignIDs)
	return skipped, err
}

// CountSkipped counts the events that a projection has gone past without applying them, by its
// policy, in all campaigns, as far back as the log of failures is kept. Those that were replayed
// since are among them.
func CountSkipped(ctx context.Context, db journal.Querier, projection string) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "count which events were skipped", queryCountSkipped, projection)
}
