package failed

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Requeue retries a failed or dead campaign at once, as if it had not failed before. It returns
// [ErrConflict] if the campaign is being rebuilt and has not failed, and [ErrReplaced] for NAME~previous.
func Requeue(ctx context.Context, tx pgx.Tx, key Key, act Act) (err error) {
	defer rows.Explain(&err, "requeue %s", key)
	if err := errors.Join(key.validate(), act.validate(false)); err != nil {
		return err
	}
	if Replaced(key.Projection) {
		return ErrReplaced
	}
	chosen, err := lockOne(ctx, tx, key)
	if err != nil {
		return err
	}
	_, err = write(ctx, tx, queryRequeue, []candidate{chosen}, act)
	return err
}

// RequeueSeq requeues the failed and dead campaigns of campaignID that stand before event seq, in
// one group or, if group is "", in all. It returns them ordered by projection, or [ErrNotFound].
func RequeueSeq(
	ctx context.Context, tx pgx.Tx, group, campaignID string, seq int64, act Act,
) (_ []Key, err error) {
	defer rows.Explain(&err, "requeue what stands before event %d of campaign %q", seq, campaignID)
	if err := errors.Join(act.validate(false), Filter{Group: group, CampaignID: campaignID}.validate()); err != nil {
		return nil, err
	}
	found, err := collect(ctx, tx, queryLockSeq, campaignID, seq, group)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return write(ctx, tx, queryRequeue, found, act)
}

// Choose returns the places of the failed campaigns that f chooses for an act, in the order of
// [List]. For the next page, set f.After to the last one.
func Choose(ctx context.Context, tx pgx.Tx, f Filter) (_ []Place, err error) {
	defer rows.Explain(&err, "choose failed campaigns")
	if f, err = f.acting(); err != nil {
		return nil, err
	}
	found, err := collect(ctx, tx, queryCandidates, f.args(0)...)
	return slice.Of(found, func(c candidate) Place { return c.Place }), err
}

// RequeuePlaces requeues and returns the failed campaigns that still stand before the event of
// their place, whenever they are due. It skips those that another operator or a worker is writing.
func RequeuePlaces(ctx context.Context, tx pgx.Tx, places []Place, act Act) (_ []Key, err error) {
	defer rows.Explain(&err, "requeue failed campaigns")
	found, err := at(ctx, tx, places, act.validate(false))
	if err != nil {
		return nil, err
	}
	taken, err := take(ctx, tx, found)
	if err != nil {
		return nil, err
	}
	return write(ctx, tx, queryRequeue, taken, act)
}

// at returns the failed campaigns that still stand before the event of their place. It locks nothing.
func at(ctx context.Context, tx pgx.Tx, places []Place, bad error) ([]candidate, error) {
	for _, p := range places {
		bad = errors.Join(bad, p.validate())
	}
	if bad != nil {
		return nil, bad
	}
	campaigns, projections, seqs := columns(places)
	return collect(ctx, tx, queryPlaces, campaigns, projections, seqs)
}

// CountOutcomes counts the results of requeued campaigns: those that passed the event, and those
// that failed at it again. The others still wait for a worker.
func CountOutcomes(ctx context.Context, db event.Querier, places []Place) (passed, failed int64, err error) {
	campaigns, projections, seqs := columns(places)
	n, err := rows.One(ctx, db, pgx.RowToStructByPos[struct{ Passed, Failed int64 }],
		"count the outcomes of requeued campaigns", queryCountOutcomes, campaigns, projections, seqs)
	return n.Passed, n.Failed, err
}
