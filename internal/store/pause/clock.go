package pause

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// queryMendClock writes the rows of a small table that are of a time that has not come yet.
const queryMendClock = `UPDATE tidemark.pauses SET paused_at = now(), expires_at = now() + (expires_at - paused_at)
	WHERE consumer_group = $1 AND expires_at < 'infinity' AND paused_at > clock_timestamp() + interval '1 minute'
	RETURNING scope, name, extract(epoch FROM expires_at - paused_at)::float8`

// MendClock has a group's pauses that end by themselves begin now, where the server's clock has gone
// back by more than a minute since they were set, and answers how many: none lasts longer than it was
// meant to.
func MendClock(ctx context.Context, tx pgx.Tx, group string) (int, error) {
	rows, err := tx.Query(ctx, queryMendClock, group)
	if err != nil {
		return 0, fmt.Errorf("shorten pauses: %w", err)
	}
	type mended struct {
		Scope, Name string
		Seconds     float64
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[mended])
	if err != nil {
		return 0, fmt.Errorf("shorten pauses: %w", err)
	}
	for _, m := range all {
		if m.Scope == "campaign" {
			if err := lease.Pause(ctx, tx, group, m.Name, time.Duration(m.Seconds*float64(time.Second))); err != nil {
				return 0, err
			}
		}
	}
	return len(all), nil
}
