package boundary

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Store is a journal, as one reaches it. It is safe for concurrent use.
type Store interface {
	// Read answers the events that a query selects, in order, with types, tags, payloads and
	// positions, and the condition that none has been added that it does not show.
	Read(ctx context.Context, q journal.Query) ([]journal.Event, journal.Condition, error)

	// Append adds all of the events, on a condition unless it is nil. It fails with
	// [journal.ErrConditionFailed] if the condition does not hold and with [ErrNothing] if nothing was
	// appended for another reason; after any other error the events may be there.
	Append(ctx context.Context, events []journal.Event, condition *journal.Condition) error
}

// ErrNothing is what a Store's Append fails with for reasons that say nothing of the condition: a
// deadlock, a snapshot that is too old, a writer who changed its mind.
var ErrNothing = errors.New("nothing was appended")

// Kill ends one connection of those who use the pool's database, and perhaps the one that asks.
func Kill(ctx context.Context, pool *pgxpool.Pool) {
	const kill = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random()
			LIMIT 1`
	_, _ = pool.Exec(ctx, kill)
}
