package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

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
	var proved Proved
	if err := tx.QueryRow(ctx, queryProved, group).Scan(&proved.Campaigns, &proved.Events, &proved.Unhashed); err != nil {
		return proved, fmt.Errorf("sum up what group %s has applied: %w", group, err)
	}
	var u Unproved
	err := rows.Each(ctx, tx, []any{&u.CampaignID, &u.Checkpoint, &u.Applied, &u.Journal, &u.SameIDs}, func() error {
		visit(u)
		return nil
	}, fmt.Sprintf("compare group %s with the journal", group), queryUnproved, group)
	if err != nil {
		return proved, err
	}
	return proved, nil
}
