package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// queryDuty probes the primary key. A duty that runs for longer than its owner could have asked
	// for is of a time before the server's clock went back.
	queryDuty = `SELECT d.owner = $2, d.expires_at <= clock_timestamp()
		OR d.expires_at > clock_timestamp() + $3::interval + interval '1 s' FROM tidemark.duties d WHERE d.name = $1`

	// queryTakeDuty writes one row by its primary key, once a few seconds. What a crash of the server
	// forgets is harmless, so it does not wait for the disk.
	queryTakeDuty = `INSERT INTO tidemark.duties AS d (name, owner, expires_at)
		SELECT $1, $2, clock_timestamp() + $3::interval FROM set_config('synchronous_commit', 'off', true)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
			WHERE d.owner = excluded.owner OR d.expires_at <= clock_timestamp()
			OR d.expires_at > clock_timestamp() + $3::interval + interval '1 s'`

	// queryDropDuty deletes one row by its primary key.
	queryDropDuty = `DELETE FROM tidemark.duties WHERE name = $1 AND owner = $2`
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
