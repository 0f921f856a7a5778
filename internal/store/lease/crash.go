package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A process that dies gives nothing back: its leases run out. The claim that finds one asks whether
// its owner is dead, and writes it into tidemark.crashes (note_crashes in
// migrations/00003_leases.sql). The row goes with the transaction that gets the campaign further.
const (
	// querySuspects probes the primary key of crashes once a campaign, and counts in the tables of
	// crashes and workers, which are small, the deaths that no mark explains.
	querySuspects = `SELECT c.campaign_id, cardinality(c.owners) AS crashes, tried.n AS marked,
		coalesce(last.mark ->> 'projection', '') AS projection,
			coalesce((last.mark ->> 'seq')::bigint, 0) AS seq, hit.n AS deaths, (
				SELECT count(*) FROM tidemark.workers w
				WHERE w.consumer_group = $1 AND w.owner <> $4 AND w.seen_at BETWEEN now() - interval '1 hour'
					AND now() - $3::interval
					AND NOT EXISTS (SELECT FROM tidemark.crashes m WHERE m.consumer_group = $1 AND m.marks ? w.owner)
			) AS unexplained
		FROM unnest($2::text[]) AS u (campaign_id) CROSS JOIN LATERAL (
			SELECT * FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = u.campaign_id OFFSET 0
		) c
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(c.owners) AS o WHERE c.marks ? o) tried
		LEFT JOIN LATERAL (SELECT c.marks -> c.owners[cardinality(c.owners)] AS mark) last ON true
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(c.owners) AS o WHERE c.marks -> o IN ('{}', last.mark)) hit`

	// queryMark writes one row by its primary key, if the campaign's lease is the caller's. A mark
	// that a crash of the server forgets is harmless, so it does not wait for the disk; it is
	// committed, so it outlives the process. An owner's earlier mark is replaced; what the dead have
	// named stays.
	queryMark = `UPDATE tidemark.crashes c SET marks = c.marks || jsonb_build_object($2::text,
			CASE WHEN $5::text = '' THEN '{}' ELSE jsonb_build_object('projection', $5::text, 'seq', $6::bigint) END)
		WHERE c.consumer_group = $1 AND c.campaign_id = $3
			AND EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id = $3 AND l.owner = $2
				AND l.generation = $4)
		RETURNING set_config('synchronous_commit', 'off', true)`

	// queryUnmark writes one row by its primary key.
	queryUnmark = `UPDATE tidemark.crashes c SET marks = c.marks - $2::text WHERE c.consumer_group = $1
		AND c.campaign_id = $3 AND c.marks ? $2`

	// querySurvived probes the primary key once a campaign. The holder of a campaign's lease is alone with its row.
	querySurvived = `DELETE FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = ANY ($2)`

	// queryExplained deletes the records of the dead that a campaign has cost, by their primary key.
	queryExplained = `DELETE FROM tidemark.workers w WHERE w.consumer_group = $1 AND w.owner = ANY (ARRAY(
			SELECT unnest(c.owners) FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = $2))`
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
	return k.suspect(ctx, db, claimed.Leases, claimed.crashed)
}

// suspect adds what is known of the crashes of campaigns to their leases.
func (k Keeper) suspect(ctx context.Context, db DB, leases []Lease, crashed []string) error {
	if len(crashed) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, querySuspects, k.Group, crashed, k.TTL, k.Owner)
	if err != nil {
		return fmt.Errorf("look for suspects: %w", err)
	}
	byID := make(map[string]*Lease, len(leases))
	for i := range leases {
		byID[leases[i].CampaignID] = &leases[i]
	}
	var id string
	var s Suspect
	_, err = pgx.ForEachRow(rows, []any{&id, &s.Crashes, &s.Marked, &s.Projection, &s.Seq, &s.Deaths, &s.Unexplained},
		func() error {
			if l := byID[id]; l != nil && s.Crashes > 0 {
				one := s
				l.Suspect = &one
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("look for suspects: %w", err)
	}
	return nil
}

// Mark names, before it is tried, the event seq of a suspect that projection is about to apply;
// with projection "", all of the campaign. It is committed at once: should the process die, the
// next owner reads it in [Lease.Suspect]. It returns [ErrLost] if the lease is no longer held.
func (k Keeper) Mark(ctx context.Context, db DB, l Lease, projection string, seq int64) error {
	tag, err := db.Exec(ctx, queryMark, k.Group, k.Owner, l.CampaignID, l.Generation, projection, seq)
	if err != nil {
		return fmt.Errorf("mark event %d of campaign %q: %w", seq, l.CampaignID, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("mark event %d of campaign %q: %w", seq, l.CampaignID, ErrLost)
	}
	return nil
}

// Unmark removes the owner's mark: it has survived what the mark named.
func (k Keeper) Unmark(ctx context.Context, db DB, l Lease) error {
	if _, err := db.Exec(ctx, queryUnmark, k.Group, k.Owner, l.CampaignID); err != nil {
		return fmt.Errorf("remove the mark of campaign %q: %w", l.CampaignID, err)
	}
	return nil
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
