package failed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// After a fix is deployed, this requeues the campaigns that died of the mistake, oldest first. It
// skips one event that cannot be repaired.
func ExampleRequeuePlaces() {
	repair := func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			lost := failed.Key{Projection: "ledger", CampaignID: "c2"}
			if err := failed.Resolve(ctx, tx, lost, 7, failed.Act{
				By:     "ada",
				Reason: "its account was closed by hand",
			}); err != nil {
				return err
			}
			places, err := failed.Choose(ctx, tx, failed.Filter{
				Projection: "ledger", Code: "22012", Status: []failed.Status{failed.Dead}, Limit: 1000,
			})
			if err != nil {
				return err
			}
			keys, err := failed.RequeuePlaces(ctx, tx, places, failed.Act{By: "ada", Reason: "fixed in 1.4.2"})
			for _, k := range keys {
				fmt.Println("requeued", k)
			}
			return err
		})
	}

	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		if _, err := pool.Exec(ctx, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq,
			status, error_code)
			VALUES ('c1', 'ledger', 'default', 3, 'dead', '22012'), ('c2', 'ledger', 'default', 7, 'dead', 'error')`); err != nil {
			return err
		}
		return repair(ctx, pool)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: requeued projection ledger of campaign "c1"
}
