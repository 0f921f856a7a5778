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
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Record is a row of tidemark.failure_log: an event in a failed campaign's life, or an operator's
// act. Fields that do not apply are zero.
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
	Actor       string // the operator; empty: none
	Reason      string
}

// Acts returns the kinds of records: those of workers, then those of operators.
func Acts() []string {
	return []string{
		"failed", "dead", "skipped", "crashed", "recovered",
		"requeued", "resolved", "unresolved", "replayed", "repaired", "paused", "resumed",
		"removed", "rebuild_began", "rebuilt", "rebuild_aborted", "rolled_back",
	}
}

// LogFilter chooses records. Zero fields match all.
type LogFilter struct {
	Group       string
	Projection  string
	CampaignID  string
	Fingerprint string
	Actor       string
	Acts        []string // any of these, from [Acts]
	Before      int64    // only records with a smaller ID: the last ID of the previous page
	Limit       int      // 0: 100
}

// History returns the records that f chooses, newest first. Without CampaignID it reads the log
// backwards until it has enough. For the next page, set f.Before to the last ID.
func History(ctx context.Context, db event.Querier, f LogFilter) ([]Record, error) {
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

// Write logs an act on a projection, or on its consumer group if projection is "". what is one of
// [Acts], such as 'removed'. Acts on failed campaigns log themselves. It blocks no other
// transaction.
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
	return rows.Do(ctx, tx, "", queryWrite, what, group, projection, act.By, act.Reason)
}

// Prune deletes up to limit rows of the failure log that are older than olderThan, oldest first. It
// returns how many; 0 also while another replica prunes. Failed campaigns keep their last failure.
func Prune(ctx context.Context, db rows.Execer, olderThan time.Duration, limit int) (int64, error) {
	if olderThan <= 0 || limit < 1 {
		return 0, fmt.Errorf("prune the failure log: %d rows older than %v: use a positive age and limit", limit, olderThan)
	}
	return rows.Exec(ctx, db, "prune the failure log", queryPrune, olderThan, limit)
}

// Skipped returns the events that a projection skipped by its policy, by campaign, as far back as
// the failure log reaches. [ResolutionsOf] returns what operators left out.
func Skipped(
	ctx context.Context, db event.Querier, projection string, campaignIDs []string,
) (map[string][]int64, error) {
	return rows.ByKey[string, int64](ctx, db, "read which events were skipped", querySkipped, projection, campaignIDs)
}

// CountSkipped counts the events that a projection skipped by its policy, in all campaigns, as far
// back as the failure log reaches. It includes events that were replayed since.
func CountSkipped(ctx context.Context, db event.Querier, projection string) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "count which events were skipped", queryCountSkipped, projection)
}
