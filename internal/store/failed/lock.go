package failed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// candidate is a pair that an act may be about, as it was found.
type candidate struct {
	Place
	Group  string
	Status Status
}

// candidates answers what f chooses for an act.
func candidates(ctx context.Context, tx pgx.Tx, f Filter) ([]candidate, error) {
	return collect(ctx, tx, queryCandidates, f.args(0)...)
}

// take locks candidates that others are not writing and have not changed, and answers them.
func take(ctx context.Context, tx pgx.Tx, found []candidate) ([]candidate, error) {
	if len(found) == 0 {
		return nil, nil
	}
	campaigns, projections := names(found)
	seqs, due := make([]int64, len(found)), make([]pgtype.Timestamptz, len(found))
	for i, c := range found {
		seqs[i], due[i] = c.NextSeq, timestamp(c.NextAttemptAt)
	}
	places, err := rows.All(ctx, tx, pgx.RowTo[int], "", queryTake, campaigns, projections, seqs, due)
	if err != nil {
		return nil, err
	}
	taken := make([]candidate, len(places))
	for i, place := range places {
		taken[i] = found[place]
	}
	return taken, nil
}

// lockOne locks one pair that has failed, and waits for its writer.
func lockOne(ctx context.Context, tx pgx.Tx, key Key) (candidate, error) {
	found, err := collect(ctx, tx, queryLockOne, key.CampaignID, key.Projection)
	switch {
	case err != nil:
		return candidate{}, err
	case len(found) == 0:
		return candidate{}, ErrNotFound
	case found[0].Status == Rebuilding:
		return candidate{}, fmt.Errorf("%w: it is being rebuilt and has not failed at event %d", ErrConflict,
			found[0].NextSeq)
	}
	return found[0], nil
}

func collect(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]candidate, error) {
	return rows.All(ctx, tx, func(row pgx.CollectableRow) (c candidate, err error) {
		var due pgtype.Timestamptz
		err = row.Scan(&c.Projection, &c.CampaignID, &c.Group, &c.NextSeq, &c.Status, &due)
		c.NextAttemptAt = due.Time
		return c, err
	}, "", query, args...)
}

// write does something to pairs that are locked, writes who did it and why to the log, and wakes workers that wait.
func write(ctx context.Context, tx pgx.Tx, query string, pairs []candidate, act Act) ([]Key, error) {
	keys := make([]Key, len(pairs))
	for i, c := range pairs {
		keys[i] = c.Key
	}
	if len(pairs) == 0 {
		return keys, nil
	}
	campaigns, projections := names(pairs)
	if _, err := tx.Exec(ctx, query, campaigns, projections, act.By, act.Reason); err != nil {
		return nil, err
	}
	return keys, lease.Wake(ctx, tx)
}

func names(pairs []candidate) (campaigns, projections []string) {
	for _, c := range pairs {
		campaigns, projections = append(campaigns, c.CampaignID), append(projections, c.Projection)
	}
	return campaigns, projections
}

// timestamp is a time of tidemark.deferred, where pairs that wait for an operator are due at 'infinity'.
func timestamp(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}
