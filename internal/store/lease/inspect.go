package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Row is a lease as its table has it.
type Row struct {
	Group      string
	CampaignID string
	Owner      string // empty: none
	Generation int64
	ExpiresAt  *time.Time // nil: given back, or where it is held without an end
	Held       bool
	Checkpoint int64
}

// List answers up to limit leases of a consumer group, held or not, in the order of their
// campaigns, from after on ("" to begin).
func List(ctx context.Context, db DB, group, after string, limit int) ([]Row, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Row], fmt.Sprintf("list the leases of group %s", group),
		queryList, group, after, limit)
}

// Applied sums the checkpoints of a consumer group: how many events it has gone through, of all
// campaigns, since its first one.
func Applied(ctx context.Context, db DB, group string) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], fmt.Sprintf("sum the checkpoints of group %s", group),
		queryApplied, group)
}

// Checkpoints answers the last seq that a consumer group has applied, by campaign. Campaigns that
// it has never had are not among them.
func Checkpoints(ctx context.Context, db DB, group string, campaignIDs []string) (map[string]int64, error) {
	checkpoints := make(map[string]int64, len(campaignIDs))
	var id string
	var seq int64
	err := rows.Each(ctx, db, []any{&id, &seq}, func() error {
		checkpoints[id] = seq
		return nil
	}, fmt.Sprintf("read the checkpoints of group %s", group), queryCheckpoints, group, campaignIDs)
	return checkpoints, err
}

// Suspects counts, by consumer group, the campaigns under which a process has died at the place where they stand.
func Suspects(ctx context.Context, db DB) (map[string]int64, error) {
	counts := map[string]int64{}
	var group string
	var n int64
	err := rows.Each(ctx, db, []any{&group, &n}, func() error {
		counts[group] = n
		return nil
	}, "count suspects", querySuspectCounts)
	return counts, err
}

// Place is where a consumer group stands in a campaign, and who has the campaign, or had it last.
type Place struct {
	Group      string
	Owner      string
	Generation int64
	ExpiresAt  *time.Time // nil: it was given back or, where Held, has no end
	Held       bool       // by the database's clock
	Checkpoint int64      // the last seq that was applied
	Host       string     // of the owner; empty if it has left no record
	PID        int        // of the owner; 0 if it has left no record
}

// Places answers where each consumer group stands in a campaign, in the order of their names.
// Groups that have never had the campaign are not among them.
func Places(ctx context.Context, db DB, campaignID string) ([]Place, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Place], fmt.Sprintf("look at the leases of campaign %q", campaignID),
		queryPlaces, campaignID)
}

// Proved is how much [Prove] has compared.
type Proved struct {
	Campaigns int64 // that the group has applied events of
	Events    int64
	Unhashed  int64 // campaigns of whose events only the number is known
}

// Unproved is a campaign of which a group has not applied what the journal says: exactly the events
// up to its checkpoint, once each.
type Unproved struct {
	CampaignID string
	Checkpoint int64
	Applied    int64 // events that workers have gone through on the way to the checkpoint
	Journal    int64 // events up to the checkpoint
	SameIDs    bool  // false: those applied have other ids than those of the journal
}

// Prove compares the number of events that a group has applied and the hash of their ids, which are
// kept with each checkpoint, with the journal: one aggregate of the journal, and no event is
// applied. visit gets the campaigns that differ, in their order. tx should be REPEATABLE READ.
func Prove(ctx context.Context, tx pgx.Tx, group string, visit func(Unproved)) (Proved, error) {
	proved, err := rows.One(ctx, tx, pgx.RowToStructByPos[Proved],
		fmt.Sprintf("sum up what group %s has applied", group), queryProved, group)
	if err != nil {
		return proved, err
	}
	var u Unproved
	columns := []any{&u.CampaignID, &u.Checkpoint, &u.Applied, &u.Journal, &u.SameIDs}
	return proved, rows.Each(ctx, tx, columns, func() error {
		visit(u)
		return nil
	}, fmt.Sprintf("compare group %s with the journal", group), queryUnproved, group)
}
