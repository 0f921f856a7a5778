package boundary

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Store is an interface to a journal. It is safe for concurrent use.
type Store interface {
	// Read returns the events that a query selects, in order, with types, tags, payloads and
	// positions. The condition holds as long as no other matching event is added.
	Read(ctx context.Context, q event.Query) ([]event.Event, journal.Condition, error)

	// Append appends all events, on a condition unless it is nil. It returns
	// [journal.ErrConditionFailed] if the condition does not hold, and [ErrNothing] if nothing was
	// appended for another reason. After any other error the events may have been appended.
	Append(ctx context.Context, events []event.Event, condition *journal.Condition) error
}

// ErrNothing is returned by a Store's Append for reasons other than the condition: a deadlock, an
// old snapshot, a writer that changed its mind.
var ErrNothing = errors.New("nothing was appended")

// Kill terminates a random connection to the pool's database, possibly one of the pool.
func Kill(ctx context.Context, pool *pgxpool.Pool) {
	const kill = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random()
			LIMIT 1`
	_, _ = pool.Exec(ctx, kill)
}
