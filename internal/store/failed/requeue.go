package failed

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Requeue has a pair that failed or is dead tried again at once, as if it had not failed before.
// [ErrConflict] says that it is being rebuilt and has not failed.
func Requeue(ctx context.Context, tx pgx.Tx, key Key, act Act) (err error) {
	defer rows.Explain(&err, "requeue %s", key)
	if err := errors.Join(key.validate(), act.validate(false)); err != nil {
		return err
	}
	pair, err := lockOne(ctx, tx, key)
	if err != nil {
		return err
	}
	_, err = write(ctx, tx, queryRequeue, []candidate{pair}, act)
	return err
}

// RequeueSeq requeues the pairs of a campaign that failed or are dead and stand before event seq,
// in one group or, if it is empty, in all. It answers them in the order of their projections, or
// [ErrNotFound].
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
