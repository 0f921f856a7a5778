package deferred

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// queryWrite inserts one row.
const queryWrite = `INSERT INTO tidemark.failure_log (act, consumer_group, projection, actor, reason)
	VALUES ($1, $2, nullif($3, ''), $4, nullif($5, ''))`

// Write writes to tidemark.failure_log, in the transaction in which it happens, an act on a whole
// projection or, where projection is "", to its consumer group: what is one of [Acts], such as
// 'backfilled' or 'removed'. Acts on single pairs write their rows themselves. It blocks no other transaction.
func Write(ctx context.Context, tx pgx.Tx, what, group, projection string, act Act) error {
	if err := act.validate(false); err != nil {
		return fmt.Errorf("write the failure log: %w", err)
	}
	switch {
	case !slices.Contains(Acts(), what):
		return fmt.Errorf("write the failure log: what is %q: known are %q", what, Acts())
	case group == "":
		return fmt.Errorf("write the failure log: name the consumer group that was %s", what)
	}
	if _, err := tx.Exec(ctx, queryWrite, what, group, projection, act.By, act.Reason); err != nil {
		return fmt.Errorf("write the failure log: %w", err)
	}
	return nil
}
