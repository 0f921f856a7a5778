package dcb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/boundary"
)

func valueOf(value *int, e event.Event) error {
	stored, err := event.Decode[struct{ Value int }](e)
	*value = stored.Value
	return err
}

// Clients that disappear during an append, and terminated backends, leave all of it or nothing.
// Retries append it once.
func TestRetriesAppendOnceHoweverOftenBackendsAreKilled(t *testing.T) {
	t.Parallel()
	pool := open(t, 8)
	ctx, stop := context.WithCancel(t.Context())
	var killers errgroup.Group
	killers.Go(func() error {
		// Ever more rarely: an append on a slow machine must come through too.
		for pause := 10 * time.Millisecond; ctx.Err() == nil; pause += pause / 20 {
			boundary.Kill(ctx, pool)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		return nil
	})
	const counters, each = 6, 5
	var g errgroup.Group
	for n := range counters {
		g.Go(func() error {
			for range each {
				// A killed read is outside the append's retry: start the decision again.
				for {
					if _, err := countUp(t.Context(), pool, fmt.Sprint("c", n)); err == nil {
						break
					} else if !errors.Is(err, errRead) {
						return err
					}
				}
			}
			return nil
		})
	}
	err := g.Wait()
	stop()
	_ = killers.Wait() // it does not fail
	if err != nil {
		t.Fatal(err)
	}
	var count, highest int
	var state interface{ SQLState() string }
	for { // this query may be the last to be killed
		err := pool.QueryRow(t.Context(),
			"SELECT count(*), max((payload ->> 'Value')::int) FROM tidemark.journal").Scan(&count, &highest)
		if err == nil {
			break
		}
		if !errors.As(err, &state) || state.SQLState() != "57P01" {
			t.Fatal(err)
		}
	}
	if count != 2*counters*each || highest != counters*each {
		t.Errorf("%d events up to %d, want %d up to %d", count, highest, 2*counters*each, counters*each)
	}
}

var errRead = errors.New("the read failed")

// countUp appends the next number twice, to two campaigns.
func countUp(ctx context.Context, pool *pgxpool.Pool, campaign string) ([]journal.Appended, error) {
	return journal.Journal{Retry: journal.Retry{Attempts: 1000, Most: 50 * time.Millisecond}}.CommitIf(ctx, pool,
		func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
			value, condition, err := journal.Decide(ctx, db, event.Tagged([]string{"counter"}), valueOf)
			if err != nil {
				return nil, condition, fmt.Errorf("%w: %w", errRead, err)
			}
			payload, err := json.Marshal(map[string]int{"Value": value + 1})
			one := event.Event{CampaignID: campaign, Type: "counted", Tags: []string{"counter"}, Payload: payload}
			other := one
			other.CampaignID += " twice"
			return []event.Event{one, other}, condition, err
		})
}
