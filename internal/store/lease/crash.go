package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Suspect is what is known of a campaign that has cost a process its life.
type Suspect struct {
	Crashes int // distinct processes that died holding it at this checkpoint
	Marked  int // of those, how many had said by [Keeper.Mark] that they were at it, and so at nothing else

	// What the last of them was trying when it died, if it had said so; else empty, and 0.
	Projection string
	Seq        int64
	Deaths     int // processes that died when they had named this event, or the whole campaign

	Unexplained int // processes of the group that died within the hour with no mark of theirs to say of what
}

// Suspects adds what is known of the crashes of campaigns to the leases of a [Keeper.ClaimAhead].
// The other claims have done so.
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
		func() error {
			if l := byID[id]; l != nil && s.Crashes > 0 {
				one := s
				l.Suspect = &one
			}
			return nil
		}, "look for suspects", querySuspects, k.Group, claimed.crashed, k.TTL, k.Owner)
}

// Mark names, before it is tried, the event seq of a suspect that projection is about to apply;
// with projection "", all of the campaign. It is committed at once: should the process die, the
// next owner reads it in [Lease.Suspect]. It returns [ErrLost] if the lease is no longer held.
func (k Keeper) Mark(ctx context.Context, db DB, l Lease, projection string, seq int64) (err error) {
	defer rows.Explain(&err, "mark event %d of campaign %q", seq, l.CampaignID)
	n, err := rows.Exec(ctx, db, "", queryMark, k.Group, k.Owner, l.CampaignID, l.Generation, projection, seq)
	if err == nil && n == 0 {
		err = ErrLost
	}
	return err
}

// Unmark removes the owner's mark: it has survived what the mark named.
func (k Keeper) Unmark(ctx context.Context, db DB, l Lease) error {
	_, err := rows.Exec(ctx, db, fmt.Sprintf("remove the mark of campaign %q", l.CampaignID),
		queryUnmark, k.Group, k.Owner, l.CampaignID)
	return err
}

// Survived queues, for a transaction that gets campaigns further, that what they cost before is no
// longer held against them.
func (k Keeper) Survived(batch *pgx.Batch, campaignIDs []string) {
	batch.Queue(querySurvived, k.Group, campaignIDs)
}

// Explained queues, for the transaction that gives up the event that they died of, that what the
// processes died of which a campaign has cost is known: they say nothing of what others die of. It
// comes before [Keeper.Survived].
func (k Keeper) Explained(batch *pgx.Batch, campaignID string) {
	batch.Queue(queryExplained, k.Group, campaignID)
}
