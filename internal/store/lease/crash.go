package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Suspect describes the crashes of processes that held a campaign.
type Suspect struct {
	Crashes int // distinct processes that died holding it at this checkpoint
	Marked  int // of these, how many had marked the campaign ([Keeper.Mark]), and so worked on nothing else

	// The last crashed process's mark; zero values if it left none.
	Projection string
	Seq        int64
	Deaths     int // processes that died with a mark on this event or on the whole campaign

	Unexplained int // processes of the group that died within the last hour without any mark
}

// Suspects adds known crashes to the leases of a [Keeper.ClaimAhead]. The other claims do so themselves.
func (k Keeper) Suspects(ctx context.Context, db DB, claimed Claimed) error {
	if len(claimed.crashed) == 0 {
		return nil
	}
	byID := make(map[string]*Lease, len(claimed.Leases))
	for i := range claimed.Leases {
		byID[claimed.Leases[i].CampaignID] = &claimed.Leases[i]
	}
	var id string
	var s Suspect
	return rows.Each(ctx, db, []any{&id, &s.Crashes, &s.Marked, &s.Projection, &s.Seq, &s.Deaths, &s.Unexplained},
		func() {
			if l := byID[id]; l != nil && s.Crashes > 0 {
				l.Suspect = new(s)
			}
		}, "look for suspects", querySuspects, k.Group, claimed.crashed, k.TTL, k.Owner)
}

// Mark records the event seq of a suspect campaign before projection applies it; projection ""
// marks the whole campaign. The mark commits at once, so after a crash the next owner reads it in
// [Lease.Suspect]. Mark returns [ErrLost] if the lease is no longer held.
func (k Keeper) Mark(ctx context.Context, db DB, l Lease, projection string, seq int64) (err error) {
	defer rows.Explain(&err, "mark event %d of campaign %q", seq, l.CampaignID)
	n, err := rows.Exec(ctx, db, "", queryMark, k.Group, k.Owner, l.CampaignID, l.Generation, projection, seq)
	if err == nil && n == 0 {
		err = ErrLost
	}
	return err
}

// Unmark removes the owner's mark, after it survived the marked event.
func (k Keeper) Unmark(ctx context.Context, db DB, l Lease) error {
	return rows.Do(ctx, db, fmt.Sprintf("remove the mark of campaign %q", l.CampaignID),
		queryUnmark, k.Group, k.Owner, l.CampaignID)
}

// Survived queues on batch the removal of campaigns' crash records, for a transaction that gets them further.
func (k Keeper) Survived(batch *pgx.Batch, campaignIDs []string) {
	batch.Queue(querySurvived, k.Group, campaignIDs)
}

// Explained queues on batch that a campaign's deaths are explained, so they blame no other. It
// belongs to the transaction that gives up the deadly event. Queue it before [Keeper.Survived].
func (k Keeper) Explained(batch *pgx.Batch, campaignID string) {
	batch.Queue(queryExplained, k.Group, campaignID)
}
