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
	return again(ctx, tx, key, act, queryRequeue)
}

// Retry has a pair that failed or is dead tried again at once; its attempts go on counting, so a
// dead one dies again if it fails. [ErrConflict] says that it is being rebuilt and has not failed.
func Retry(ctx context.Context, tx pgx.Tx, key Key, act Act) (err error) {
	defer rows.Explain(&err, "retry %s", key)
	return again(ctx, tx, key, act, queryRetry)
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

// RequeueAll requeues the pairs that f chooses and answers them, in the order of [List], which is
// also the order in which they become due. Pairs that another operator or a worker is writing are
// passed by: of two operators who requeue the same pairs at once, each pair is one's.
func RequeueAll(ctx context.Context, tx pgx.Tx, f Filter, act Act) (_ []Key, err error) {
	defer rows.Explain(&err, "requeue failed campaigns")
	f, err = f.acting()
	if err := errors.Join(act.validate(false), err); err != nil {
		return nil, err
	}
	// Those that are passed by take no room: more are looked for, until there are enough.
	var chosen []candidate
	for limit := f.Limit; ; f.Limit = limit - len(chosen) {
		found, err := candidates(ctx, tx, f)
		if err != nil {
			return nil, err
		}
		taken, err := take(ctx, tx, found)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, taken...)
		if limit == 0 || len(chosen) == limit || len(found) < f.Limit {
			return write(ctx, tx, queryRequeue, chosen, act)
		}
		f.After = &found[len(found)-1].Place
	}
}

// again has one pair tried again.
func again(ctx context.Context, tx pgx.Tx, key Key, act Act, query string) error {
	if err := errors.Join(key.validate(), act.validate(false)); err != nil {
		return err
	}
	pair, err := lockOne(ctx, tx, key)
	if err != nil {
		return err
	}
	_, err = write(ctx, tx, query, []candidate{pair}, act)
	return err
}
