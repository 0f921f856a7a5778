package decisions_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/decisions"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const retention = 3 * 24 * time.Hour

var errTaken = errors.New("the name is taken")

// name models one name: whether it is in use, and until when it is reserved.
type name struct {
	taken bool
	until time.Time
}

func claim(ctx context.Context, pool *pgxpool.Pool, user, wanted string, now time.Time) error {
	n := journal.NewModel(event.Tagged([]string{"username=" + wanted}), func(n *name, e event.Event) error {
		n.taken, n.until = e.Type == "name_claimed", e.OccurredAt.Add(retention)
		return nil
	})
	return decisions.Decide(ctx, pool, func() ([]event.Event, error) {
		if n.State.taken || now.Before(n.State.until) {
			return nil, errTaken
		}
		return []event.Event{decisions.Event("user-"+user, "name_claimed", nil, "username="+wanted)}, nil
	}, n)
}

func TestUniqueNamesWithReleaseAndRetention(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	now := time.Now().Truncate(time.Second)
	expect(t, "a new name", claim(t.Context(), pool, "1", "mira", now), nil)
	expect(t, "a name in use", claim(t.Context(), pool, "2", "mira", now.Add(10*retention)), errTaken)
	expect(t, "another name", claim(t.Context(), pool, "2", "oskar", now), nil)
	released := decisions.Event("user-1", "name_released", nil, "username=mira")
	released.OccurredAt = now
	given(t, pool, released)
	expect(t, "a name just released", claim(t.Context(), pool, "2", "mira", now.Add(retention-time.Hour)), errTaken)
	expect(t, "a name long released", claim(t.Context(), pool, "2", "mira", now.Add(retention+time.Hour)), nil)
}
