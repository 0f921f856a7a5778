package dcb_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// When many decide by the same events, each needs one attempt: it reads the events that it did not
// know while it holds the locks. Two connections are enough, because a decision reads on the
// connection that it appends on.
func TestEachOfManyGetsItsTurn(t *testing.T) {
	t.Parallel()
	pool := open(t, 2)
	const writers = 12
	var g errgroup.Group
	for range writers {
		g.Go(func() error {
			_, err := journal.Journal{Retry: journal.Retry{Attempts: 1}}.CommitIf(t.Context(), pool,
				func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
					value, condition, err := journal.Decide(ctx, db, event.Tagged([]string{"counter"}), valueOf)
					if err != nil {
						return nil, condition, err
					}
					payload, err := json.Marshal(map[string]int{"Value": value + 1})
					return []event.Event{{CampaignID: "c", Type: "counted", Tags: []string{"counter"}, Payload: payload}},
						condition, err
				})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	value, _, err := journal.Decide(t.Context(), pool, event.Tagged([]string{"counter"}), valueOf)
	if err != nil || value != writers {
		t.Errorf("counted to %d, %v", value, err)
	}
}

// A call conflicts with conditions on each of its types, whatever the other types are.
func TestACallOfSeveralTypesMeetsConditionsOnEach(t *testing.T) {
	t.Parallel()
	pool := open(t, 4)
	for _, eventType := range []string{"opened", "noted", "closed"} {
		floor, err := feed.Floor(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		first := begin(t, pool, pgx.ReadCommitted)
		if _, err := (journal.Journal{}).Append(t.Context(), first, "a", journal.Any, newEvent("", "opened"), newEvent("", "noted"),
			newEvent("", "closed")); err != nil {
			t.Fatal(err)
		}
		result := blocked(t, pool, journal.Condition{FailIfMatch: event.Types(eventType), After: floor},
			newEvent("b", "decided"))
		commit(t, first)
		if err := result(); !errors.Is(err, journal.ErrConditionFailed) {
			t.Errorf("%s: %v", eventType, err)
		}
	}
}
