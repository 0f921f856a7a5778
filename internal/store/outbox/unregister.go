package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrInUse is returned by [Unregister] for a group that has projections.
var ErrInUse = errors.New("consumer group is in use")

// ErrNotRegistered is returned by [Unregister] for a group that nothing is known of.
var ErrNotRegistered = errors.New("consumer group is not registered")

// unregisterRows is how many rows are deleted in one statement.
const unregisterRows = 10_000

// Unregister ends a consumer group: appends give it no more work items, and those that it has, its
// leases with its checkpoints, and its pauses are deleted. A group of the same name begins anew,
// with the first event of every campaign. The failure log keeps that by, who must be named, removed
// it, and the reason, if there is one. [ErrInUse] says that it has projections: remove those first
// (rebuild.Remove). Workers that still run for it lose what they are applying and find no more;
// stop them, or they register it again at their next start.
//
// Unregister must not run inside a transaction. It waits until appends that began while the group
// was known have ended. Interrupted, it goes on when it is called again.
func Unregister(ctx context.Context, db DB, group, by, reason string) (err error) {
	defer rows.Explain(&err, "unregister consumer group %q", group)
	if by == "" {
		return errors.New("name who does it")
	}
	var projections int
	var example string
	if err := db.QueryRow(ctx, queryGroupProjections, group).Scan(&projections, &example); err != nil {
		return err
	}
	if projections > 0 {
		return fmt.Errorf("%w: it has %d projections, %s among them: remove them first", ErrInUse, projections, example)
	}
	tag, err := db.Exec(ctx, queryUnregister, group, by, reason)
	if err != nil {
		return err
	}
	deleted := tag.RowsAffected()
	if err := barrier(ctx, db); err != nil {
		return err
	}
	// Work items first: a claim that finds none makes no lease.
	for _, query := range []string{queryDropItems, queryDropLeases, queryDropCrashes, queryDropPauses} {
		for n := int64(unregisterRows); n == unregisterRows; {
			tag, err := db.Exec(ctx, query, group, unregisterRows)
			if err != nil {
				return err
			}
			n = tag.RowsAffected()
			deleted += n
		}
	}
	if deleted == 0 {
		return ErrNotRegistered
	}
	return nil
}
