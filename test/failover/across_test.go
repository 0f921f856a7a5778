package failover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// payments is a process that appends that money was sent for each request.
func payments() projection.Projection {
	return projection.Process[int]{
		Name: "payments", Version: 1, Types: []string{"requested"},
		Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(n *int, _ event.Event) error { *n++; return nil },
		React: []projection.Reaction[int]{
			projection.React("requested", func(_ *int, e event.Event, _ struct{}) ([]projection.Do, error) {
				return []projection.Do{{Campaign: "bank", Events: []event.Event{{Type: "sent", Payload: e.Payload}}}}, nil
			}),
		},
	}
}

// add appends n events to each of some campaigns, and a request named what in each.
func add(t *testing.T, pool *pgxpool.Pool, what string, campaigns, n int) {
	t.Helper()
	for c := range campaigns {
		events := make([]event.Event, n, n+1)
		for i := range events {
			events[i] = tally.Event(int64(c + i))
		}
		events = append(events, event.Event{Type: "requested", Payload: fmt.Appendf(nil, `{"of": "%s %d"}`, what, c)})
		tally.AppendAll(t, pool, journal.Batch{CampaignID: fmt.Sprint("c", c), Events: events})
	}
}

// paid waits until money was sent for every request.
func paid(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Eventually(t, "money was sent for all requests", tally.Holds(pool, `SELECT NOT EXISTS (SELECT FROM
			tidemark.scheduled) AND count(*) FILTER (WHERE event_type = 'sent') >= count(*) FILTER (WHERE
			event_type = 'requested') FROM tidemark.journal`))
	tally.SettleAcross(t, pool)
}

// answers waits until the pool has a session of the present database.
func answers(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	pool.Reset()
	tally.Eventually(t, "the database answers", func(ctx context.Context) (bool, error) {
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return pool.Ping(bounded) == nil, nil
	})
}

// TestProjectionsAcrossCampaignsGoOnWithWhatTheDatabaseHas loses commits under a worker that has applied
// them, for projections of each kind and a process.
func TestProjectionsAcrossCampaignsGoOnWithWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	for name, begin := range losses {
		for _, partitions := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, partitions %d", name, partitions), func(t *testing.T) {
				t.Parallel()
				l := begin(t)
				pool := tally.Pool(t, l.url, "test", 4)
				tally.Run(t, projector.Config{
					Pool: tally.Pool(t, l.url, "worker", 10), LeaseTTL: 3 * time.Second, PollInterval: 100 * time.Millisecond,
					Concurrency: 2, Projections: append(tally.Across(partitions, nil), payments()),
				})
				tally.Eventually(t, "the worker lives", tally.Holds(pool, `SELECT count(*) = 5 FROM tidemark.projections`))
				add(t, pool, "kept", 3, 2)
				paid(t, pool)
				l.forget(t)
				answers(t, pool)
				add(t, pool, "lost", 3, 3)
				paid(t, pool)
				const histories = `SELECT count(*) FROM tidemark.histories`
				before := tally.Value[int](t, pool, histories)
				l.lose(t)
				answers(t, pool)
				lost := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.journal WHERE payload ->> 'of' LIKE 'lost%'`)
				if (lost > 0) != l.kept {
					t.Fatalf("%d of the events are there", lost)
				}
				add(t, pool, "new", 4, 3)
				paid(t, pool)
				tally.VerifyAcross(t, pool, nil)
				if now := tally.Value[int](t, pool, histories); (now == before) != l.same {
					t.Errorf("the journal had %d histories and has %d", before, now)
				}
				if wrong := tally.Value[string](t, pool, `SELECT coalesce(string_agg(coalesce(r.of, '') || ' sent ' || coalesce(s.of, ''), ', '), '')
					FROM (SELECT payload ->> 'of' AS of FROM tidemark.journal WHERE event_type = 'requested') r
					FULL JOIN (SELECT payload ->> 'of' AS of FROM tidemark.journal WHERE event_type = 'sent') s ON s.of = r.of
					WHERE (r.of = s.of) IS NOT true`); wrong != "" {
					t.Errorf("requests and what was sent differ: %s", wrong)
				}
				if n := tally.Value[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
					t.Errorf("%d failures were put down to events", n)
				}
			})
		}
	}
}
