package failed

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Resolve leaves event seq out for good, for a pair that failed at it or is dead: the pair goes on
// with the event after it, at once. Its rows in the projection's tables stay as if the event had
// never been, whatever applies the campaign again later, until [Unresolve] takes it back.
// [ErrConflict] says that the pair stands at another event by now, or has not failed at it.
//
// The event is left out of all sets of tables that the projection has: one that has applied it,
// such as the one that a rebuild builds or has replaced, applies the campaign from scratch.
// [ErrNotResettable] says that it cannot: roll tx back.
//
// Until tx ends the projection's tables are neither exchanged nor dropped. Resolve takes the
// campaign from the worker that holds it, whose work under way is done again, and locks its lease
// until tx ends. It comes before other acts in tx. It waits for a worker that is just committing,
// and for one that applies the campaign savepointed, whose fence comes first, until the group ends; a
// lock_timeout bounds the wait.
func Resolve(ctx context.Context, tx pgx.Tx, key Key, seq int64, act Act) (err error) {
	defer rows.Explain(&err, "resolve event %d for %s", seq, key)
	if err := errors.Join(key.validate(), act.validate(true)); err != nil {
		return err
	}
	if _, err := keepSets(ctx, tx, key.Projection); err != nil {
		return err
	}
	seen, err := get(ctx, tx, key)
	if err != nil {
		return err
	}
	if err := lease.Fence(ctx, tx, seen.Group, []string{key.CampaignID}); err != nil {
		return err
	}
	pair, err := lockOne(ctx, tx, key)
	if err != nil {
		return err
	}
	if pair.NextSeq != seq {
		return fmt.Errorf("%w: it stands before event %d", ErrConflict, pair.NextSeq)
	}
	_, err = settle(ctx, tx, []candidate{pair}, act)
	return err
}
