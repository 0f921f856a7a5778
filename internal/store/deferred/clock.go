package deferred

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// queryMendClock reads the end of deferred_due_idx, which has nothing so far ahead but where the
// server's clock has gone back.
const queryMendClock = `WITH ahead AS MATERIALIZED (
		SELECT d.ctid AS place
		FROM unnest($2::text[], $3::float8[]) AS k (projection, longest) CROSS JOIN LATERAL (
			SELECT d.ctid FROM tidemark.deferred d
			WHERE d.consumer_group = $1 AND d.projection = k.projection AND d.next_attempt_at < 'infinity'
				AND d.next_attempt_at > clock_timestamp() + make_interval(secs => k.longest)
			LIMIT $4 FOR UPDATE SKIP LOCKED
		) d
	)
	UPDATE tidemark.deferred d SET next_attempt_at = now() WHERE d.ctid = ANY (ARRAY(SELECT a.place FROM ahead a))`

// MendClock makes pairs due that wait for longer than their projection ever has one wait, up to limit
// of each projection, and answers how many. Such times come from a server's clock that has gone back
// since. It skips rows that are locked.
func MendClock(
	ctx context.Context, tx pgx.Tx, group string, longest map[string]time.Duration, limit int,
) (int64, error) {
	var projections []string
	var waits []time.Duration
	for name, wait := range longest {
		projections, waits = append(projections, name), append(waits, wait)
	}
	tag, err := tx.Exec(ctx, queryMendClock, group, projections, seconds(waits), limit)
	if err != nil {
		return 0, fmt.Errorf("make pairs due that wait too long: %w", err)
	}
	return tag.RowsAffected(), nil
}
