package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Row is a row of tidemark.leases.
type Row struct {
	Group      string
	CampaignID string
	Owner      string // empty: none
	Generation int64
	ExpiresAt  *time.Time // nil: released, or held without an end
	Held       bool
	Checkpoint int64
}

// List returns up to limit leases of a consumer group, held or not, ordered by campaign, after after ("" to begin).
func List(ctx context.Context, db DB, group, after string, limit int) ([]Row, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Row], fmt.Sprintf("list the leases of group %s", group),
		queryList, group, after, limit)
}

// Applied returns the sum of a consumer group's checkpoints: the events it has passed in all campaigns.
func Applied(ctx context.Context, db DB, group string) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], fmt.Sprintf("sum the checkpoints of group %s", group),
		queryApplied, group)
}

// Checkpoints returns the last seq that a consumer group has applied, by campaign. It omits
// campaigns that the group has never held.
func Checkpoints(ctx context.Context, db DB, group string, campaignIDs []string) (map[string]int64, error) {
	checkpoints := make(map[string]int64, len(campaignIDs))
	var id string
	var seq int64
	err := rows.Each(ctx, db, []any{&id, &seq}, func() { checkpoints[id] = seq },
		fmt.Sprintf("read the checkpoints of group %s", group), queryCheckpoints, group, campaignIDs)
	return checkpoints, err
}

// Suspects counts, by consumer group, the campaigns on which a process died at their current checkpoint.
func Suspects(ctx context.Context, db DB) (map[string]int64, error) {
	counts := map[string]int64{}
	var group string
	var n int64
	err := rows.Each(ctx, db, []any{&group, &n}, func() { counts[group] = n }, "count suspects", querySuspectCounts)
	return counts, err
}

// Place is the position of a consumer group in a campaign, with the current or last owner.
type Place struct {
	Group      string
	Owner      string
	Generation int64
	ExpiresAt  *time.Time // nil: released or, if Held, without an end
	Held       bool       // by the database's clock
	Checkpoint int64      // the last seq applied
	Host       string     // of the owner; empty without a record of it
	PID        int        // of the owner; 0 without a record of it
}

// Places returns the place of each consumer group in a campaign, ordered by group. It omits groups
// that have never held the campaign.
func Places(ctx context.Context, db DB, campaignID string) ([]Place, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Place], fmt.Sprintf("look at the leases of campaign %q", campaignID),
		queryPlaces, campaignID)
}

// Proved is the amount of data that [Prove] compared.
type Proved struct {
	Campaigns int64 // with applied events
	Events    int64
	Unhashed  int64 // campaigns compared by number of events only
}

// Unproved is a campaign in which a group has not applied each event up to its checkpoint exactly once.
type Unproved struct {
	CampaignID string
	Checkpoint int64
	Applied    int64 // events that workers have passed on the way to the checkpoint
	Journal    int64 // events up to the checkpoint
	SameIDs    bool  // false: the applied events have other ids than the journal's
}

// Prove compares the number of applied events and the hash of their ids, kept with each checkpoint,
// with the journal. It costs one aggregate of the journal and applies no event. visit gets the
// campaigns that differ, in order. tx should be REPEATABLE READ.
func Prove(ctx context.Context, tx pgx.Tx, group string, visit func(Unproved)) (Proved, error) {
	proved, err := rows.One(ctx, tx, pgx.RowToStructByPos[Proved],
		fmt.Sprintf("sum up what group %s has applied", group), queryProved, group)
	if err != nil {
		return proved, err
	}
	var u Unproved
	columns := []any{&u.CampaignID, &u.Checkpoint, &u.Applied, &u.Journal, &u.SameIDs}
	return proved, rows.Each(ctx, tx, columns, func() { visit(u) },
		fmt.Sprintf("compare group %s with the journal", group), queryUnproved, group)
}
