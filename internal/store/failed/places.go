package failed

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// queryPlaces probes the primary key once a pair. It locks nothing.
const queryPlaces = `SELECT` + standing + `
	FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS n (campaign_id, projection, next_seq, ord)
	CROSS JOIN LATERAL (
		SELECT d.* FROM tidemark.deferred d
		WHERE d.campaign_id = n.campaign_id AND d.projection = n.projection AND d.next_seq = n.next_seq
			AND d.status IN ('failed', 'dead') OFFSET 0
	) d
	ORDER BY n.ord`

// Choose answers the places of the pairs that f chooses for an act, in the order of [List]. For the
// page that follows, set f.After to the last one.
func Choose(ctx context.Context, tx pgx.Tx, f Filter) (_ []Place, err error) {
	defer rows.Explain(&err, "choose failed campaigns")
	if f, err = f.acting(); err != nil {
		return nil, err
	}
	found, err := candidates(ctx, tx, f)
	if err != nil {
		return nil, err
	}
	places := make([]Place, len(found))
	for i, c := range found {
		places[i] = c.Place
	}
	return places, nil
}

// RequeuePlaces requeues those of the pairs that have failed and stand before the event of their
// place, whenever they are due, and answers them. Pairs that another operator or a worker is
// writing are passed by.
func RequeuePlaces(ctx context.Context, tx pgx.Tx, places []Place, act Act) (_ []Key, err error) {
	defer rows.Explain(&err, "requeue failed campaigns")
	return onPlaces(ctx, tx, places, act, false)
}

// ResolvePlaces skips, for each of the pairs that have failed and stand before the event of their
// place, that event, and answers them. Pairs that another operator or a worker is writing are
// passed by. It locks the campaigns' leases as [Resolve] does.
func ResolvePlaces(ctx context.Context, tx pgx.Tx, places []Place, act Act) (_ []Key, err error) {
	defer rows.Explain(&err, "resolve failed campaigns")
	return onPlaces(ctx, tx, places, act, true)
}

func onPlaces(ctx context.Context, tx pgx.Tx, places []Place, act Act, resolve bool) ([]Key, error) {
	errs := []error{act.validate(resolve)}
	var campaigns, projections []string
	var seqs []int64
	for _, p := range places {
		errs = append(errs, p.validate())
		campaigns, projections, seqs = append(campaigns, p.CampaignID), append(projections, p.Projection),
			append(seqs, p.NextSeq)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if resolve {
		if _, err := keepSets(ctx, tx, ""); err != nil {
			return nil, err
		}
	}
	found, err := collect(ctx, tx, queryPlaces, campaigns, projections, seqs)
	if err != nil {
		return nil, err
	}
	if resolve {
		if err := fence(ctx, tx, found); err != nil {
			return nil, err
		}
	}
	taken, err := take(ctx, tx, found)
	if err != nil {
		return nil, err
	}
	if resolve {
		return settle(ctx, tx, taken, act)
	}
	return write(ctx, tx, queryRequeue, taken, act)
}

// fence takes the campaigns of pairs from their holders.
func fence(ctx context.Context, tx pgx.Tx, found []candidate) error {
	campaigns := map[string][]string{}
	for _, c := range found {
		campaigns[c.Group] = append(campaigns[c.Group], c.CampaignID)
	}
	for _, group := range slices.Sorted(maps.Keys(campaigns)) {
		if err := lease.Fence(ctx, tx, group, campaigns[group]); err != nil {
			return err
		}
	}
	return nil
}

// CountOutcomes counts what became of pairs that were requeued at these places: those that got past
// the event, and those that failed at it again. The others still wait for a worker.
func CountOutcomes(ctx context.Context, db journal.Querier, places []Place) (passed, failed int64, err error) {
	var campaigns, projections []string
	var seqs []int64
	for _, p := range places {
		campaigns, projections = append(campaigns, p.CampaignID), append(projections, p.Projection)
		seqs = append(seqs, p.NextSeq)
	}
	n, err := rows.One(ctx, db, pgx.RowToStructByPos[struct{ Passed, Failed int64 }],
		"count what became of requeued pairs", queryCountOutcomes, campaigns, projections, seqs)
	if err != nil {
		return 0, 0, err
	}
	return n.Passed, n.Failed, nil
}
