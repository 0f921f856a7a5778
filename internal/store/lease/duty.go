package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// TakeDuty takes or renews, for ttl from now on, the duty that one process at a time has under a
// name, and says whether the owner has it. While another has it nothing is written. It fences
// nothing: it is for work that does no harm done twice, once in a while.
func TakeDuty(ctx context.Context, db DB, name, owner string, ttl time.Duration) (bool, error) {
	var mine, over bool
	err := db.QueryRow(ctx, queryDuty, name, owner, ttl).Scan(&mine, &over)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return false, fmt.Errorf("take the duty %q: %w", name, err)
	case !mine && !over:
		return false, nil
	}
	tag, err := db.Exec(ctx, queryTakeDuty, name, owner, ttl)
	if err != nil {
		return false, fmt.Errorf("take the duty %q: %w", name, err)
	}
	return tag.RowsAffected() == 1, nil
}

// DropDuty gives the duty up, so that another need not wait until it runs out. It does nothing if
// the owner does not have it.
func DropDuty(ctx context.Context, db DB, name, owner string) error {
	if _, err := db.Exec(ctx, queryDropDuty, name, owner); err != nil {
		return fmt.Errorf("drop the duty %q: %w", name, err)
	}
	return nil
}
