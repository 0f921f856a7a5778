package projector_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestWhatWasAppliedCanBeProved applies events in every way, and then finds the leases that do not
// match the journal.
func TestWhatWasAppliedCanBeProved(t *testing.T) {
	t.Parallel()
	for name, projections := range map[string][]projection.Projection{
		"in_Go": kinds(t, "x"), "by_a_function_alone": kinds(t, "x")[2:], "by_a_function_unasked": kinds(t, "x")[2:],
		"with_failures": append(kinds(t, "x"), fragile(func(e event.Event) bool { return e.Seq%5 == 3 })),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			p, err := projector.New(projector.Config{
				Pool: pool, Projections: projections, GroupEvents: 7, ClaimCampaigns: 3,
				LeaseTTL: time.Minute, Proof: name != "by_a_function_unasked",
			})
			if err != nil {
				t.Fatal(err)
			}
			prove := func() (proved lease.Proved, unproved []string) {
				t.Helper()
				err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) (err error) {
					proved, err = lease.Prove(t.Context(), tx, "default", func(u lease.Unproved) {
						unproved = append(unproved, fmt.Sprint(u.CampaignID, " ", u.Checkpoint, " ", u.Applied, " ", u.Journal, " ",
							u.SameIDs))
					})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return proved, unproved
			}
			drain(t, p)
			for range 2 {
				for i := range 9 {
					appendMoves(t, pool, fmt.Sprintf("c%d", i), 1, 2, 3, 4, 5, 6)
				}
				drain(t, p)
			}
			err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				appended, err := journal.Journal{}.Append(t.Context(), tx, "c0", journal.Any,
					event.Event{Type: "moved", Payload: []byte(`{"by": 1}`)})
				if err != nil {
					return err
				}
				return p.ApplyInline(t.Context(), tx, appended...)
			})
			if err != nil {
				t.Fatal(err)
			}
			want, found := lease.Proved{Campaigns: 9, Events: 109},
				[]string{"c1 13 12 13 false", "c3 12 11 11 true", "c4 12 12 12 false", "c7 12 12 11 false"}
			if name == "by_a_function_unasked" {
				// without the hash, only the number of events can be checked
				want.Unhashed, found = 9, []string{"c1 13 12 13 true", "c3 12 11 11 true", "c7 12 12 11 true"}
			}
			if proved, unproved := prove(); proved != want || len(unproved) > 0 {
				t.Fatalf("%+v, %q", proved, unproved)
			}
			appendMoves(t, pool, "c1", 1)
			appendMoves(t, pool, "c2", 1) // not applied, so there is nothing to prove
			exec(t, pool, `UPDATE tidemark.leases SET checkpoint = 13 WHERE campaign_id = 'c1'`)
			exec(t, pool, `ALTER TABLE tidemark.journal DISABLE TRIGGER USER`)
			exec(t, pool, `UPDATE tidemark.journal SET event_id = gen_random_uuid() WHERE campaign_id = 'c4' AND seq = 4`)
			exec(t, pool, `DELETE FROM tidemark.journal WHERE campaign_id = 'c7' AND seq = 12`)
			exec(t, pool,
				`WITH gap AS (DELETE FROM tidemark.journal WHERE campaign_id = 'c3' AND seq = 5 RETURNING event_id) -- as if it had never been there
				UPDATE tidemark.leases SET applied = 11, applied_hash = applied_hash # uuid_hash_extended(gap.event_id, 0)
					FROM gap WHERE campaign_id = 'c3'`)
			if _, unproved := prove(); !slices.Equal(unproved, found) {
				t.Errorf("found %q", unproved)
			}
		})
	}
}
