package lease

import (
	"context"
	"encoding/json"
	"fmt"
)

// Trial is what is known of a campaign that a shadow is about to try. Shadows roll back what they
// claim, so a process that dies of an event leaves no lease behind. What they try they name in
// tidemark.crashes beforehand, in a group of its own beside the workers'; the claim keeps two of
// them from trying the same campaign at once, so a name that is found there is a dead one's.
type Trial struct {
	Crashes int // processes that died while they tried it

	// The event that most of them had named, and how many had; else empty, and 0.
	Projection string
	Seq        int64
	Deaths     int
}

// shadowGroup is where shadows of a group write, so that no worker takes what they died of for its own.
func shadowGroup(group string) string { return group + "~shadow" }

const (
	// queryTry writes one row a campaign by its primary key; it waits only for another shadow
	// that is doing the same. Like all of these it does not wait for the disk.
	queryTry = `INSERT INTO tidemark.crashes AS c (consumer_group, campaign_id, checkpoint, owners, marks)
		SELECT $1, u.campaign_id, 0, ARRAY[$2::text], jsonb_build_object($2::text, '{}'::jsonb)
			FROM unnest($3::text[]) AS u (campaign_id) ORDER BY u.campaign_id
		ON CONFLICT (consumer_group, campaign_id) DO UPDATE
			SET owners = array_append(array_remove(c.owners, $2), $2), marks = c.marks || excluded.marks
		RETURNING campaign_id, cardinality(owners) - 1, marks - $2::text, set_config('synchronous_commit', 'off', true)`

	// queryTryEvent writes one row by its primary key.
	queryTryEvent = `UPDATE tidemark.crashes c SET marks = c.marks || jsonb_build_object($2::text,
		jsonb_build_object('projection', $4::text, 'seq', $5::bigint))
		WHERE c.consumer_group = $1 AND c.campaign_id = $3 RETURNING set_config('synchronous_commit', 'off', true)`

	// queryTried deletes one row a campaign by its primary key, queryLeave writes one.
	queryTried = `DELETE FROM tidemark.crashes c WHERE c.consumer_group = $1 AND c.campaign_id = ANY ($2)
		RETURNING set_config('synchronous_commit', 'off', true)`
	queryLeave = `UPDATE tidemark.crashes c SET owners = array_remove(c.owners, $2), marks = c.marks - $2::text
		WHERE c.consumer_group = $1 AND c.campaign_id = ANY ($3) RETURNING set_config('synchronous_commit', 'off', true)`

	// queryForgetTrials deletes what is older than a day from a small table.
	queryForgetTrials = `DELETE FROM tidemark.crashes c WHERE c.consumer_group = $1
		AND c.at < clock_timestamp() - interval '1 day'`
)

// Try names the campaigns that a shadow is about to try, and answers what is known of those that
// processes have died of. It is committed at once.
func (k Keeper) Try(ctx context.Context, db DB, campaignIDs []string) (map[string]Trial, error) {
	rows, err := db.Query(ctx, queryTry, shadowGroup(k.Group), k.Owner, campaignIDs)
	if err != nil {
		return nil, fmt.Errorf("name campaigns that are tried: %w", err)
	}
	defer rows.Close()
	known := map[string]Trial{}
	for rows.Next() {
		var id string
		var crashes int
		var marks []byte
		if err := rows.Scan(&id, &crashes, &marks, nil); err != nil {
			return nil, fmt.Errorf("name campaigns that are tried: %w", err)
		}
		if crashes == 0 {
			continue
		}
		if known[id], err = trial(crashes, marks); err != nil {
			return nil, fmt.Errorf("read what campaign %q was tried with: %w", id, err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("name campaigns that are tried: %w", err)
	}
	return known, nil
}

// trial counts what the dead have named.
func trial(crashes int, marks []byte) (Trial, error) {
	type named struct {
		Projection string
		Seq        int64
	}
	var byOwner map[string]named
	if err := json.Unmarshal(marks, &byOwner); err != nil {
		return Trial{}, err
	}
	t, deaths := Trial{Crashes: crashes}, map[named]int{}
	for _, n := range byOwner {
		if deaths[n]++; n.Projection != "" && deaths[n] > t.Deaths {
			t.Projection, t.Seq, t.Deaths = n.Projection, n.Seq, deaths[n]
		}
	}
	return t, nil
}

// TryEvent names the event of a campaign under trial that comes next.
func (k Keeper) TryEvent(ctx context.Context, db DB, campaignID, projection string, seq int64) error {
	if _, err := db.Exec(ctx, queryTryEvent, shadowGroup(k.Group), k.Owner, campaignID, projection, seq); err != nil {
		return fmt.Errorf("name event %d of campaign %q, which is tried: %w", seq, campaignID, err)
	}
	return nil
}

// Tried forgets campaigns that have been tried to the end, and survived.
func (k Keeper) Tried(ctx context.Context, db DB, campaignIDs []string) error {
	if _, err := db.Exec(ctx, queryTried, shadowGroup(k.Group), campaignIDs); err != nil {
		return fmt.Errorf("forget campaigns that were tried: %w", err)
	}
	return nil
}

// Leave leaves campaigns that processes have died of, alive, and what is known of them as it was.
func (k Keeper) Leave(ctx context.Context, db DB, campaignIDs []string) error {
	if _, err := db.Exec(ctx, queryLeave, shadowGroup(k.Group), k.Owner, campaignIDs); err != nil {
		return fmt.Errorf("leave campaigns that were tried: %w", err)
	}
	return nil
}

// ForgetTrials forgets what shadows died of more than a day ago: it may have been mended.
func (k Keeper) ForgetTrials(ctx context.Context, db DB) error {
	if _, err := db.Exec(ctx, queryForgetTrials, shadowGroup(k.Group)); err != nil {
		return fmt.Errorf("forget what shadows died of: %w", err)
	}
	return nil
}
