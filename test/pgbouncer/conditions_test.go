package pgbouncer_test

import (
	"context"
	"encoding/json"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/boundary"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// lastNumber folds events into the number of the last one.
func lastNumber(n *int, e event.Event) error {
	payload, err := event.Decode[struct{ N int }](e)
	*n = payload.N
	return err
}

// Locks, settings and the transaction that follows COMMIT AND CHAIN belong to the transaction, not
// to the session. So conditions hold, and decisions take turns, over pooled connections.
func TestConditionsBehindPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	for _, execMode := range []string{"cache_describe", "exec", "simple_protocol"} {
		t.Run("with_"+execMode, func(t *testing.T) {
			t.Parallel()
			bounced := tally.Pool(t, startBouncer(t, pgtest.New(t), execMode), "conditions", 2*serverConnections)
			boundary.SingleWriter(t, boundary.Journal{Pool: bounced})
			boundary.Register(t, boundary.Journal{Pool: bounced}, nil)

			const deciders, each = 2 * serverConnections, 3
			var g errgroup.Group
			for range deciders {
				g.Go(func() error {
					for range each {
						_, err := journal.Journal{Retry: journal.Retry{Attempts: 1}}.CommitIf(t.Context(), bounced,
							func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
								n, condition, err := journal.Decide(ctx, db, event.Tagged([]string{"counter"}), lastNumber)
								if err != nil {
									return nil, condition, err
								}
								payload, err := json.Marshal(map[string]int{"N": n + 1})
								return []event.Event{{CampaignID: "counter", Type: "counted", Tags: []string{"counter"}, Payload: payload}},
									condition, err
							})
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			n, _, err := journal.Decide(t.Context(), bounced, event.Tagged([]string{"counter"}), lastNumber)
			if err != nil || n != deciders*each {
				t.Errorf("counted to %d, %v, want %d", n, err, deciders*each)
			}
		})
	}
}
