package pause

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

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
