package operator_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/operator"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// A deployment pauses a consumer group for at most an hour, and asks what has failed before it goes on.
func ExampleOperator() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		if _, err := pool.Exec(ctx, "INSERT INTO tidemark.consumer_groups VALUES ('shop')"); err != nil { // its workers do this
			return err
		}
		op := operator.Operator{DB: pool, Name: "deploy-bot", Reason: "deploy of 1.4.2"}
		shop := operator.Target{Group: "shop"}
		if err := op.Pause(ctx, shop, time.Hour); err != nil {
			return err
		}
		failed := 0
		for c, err := range op.Failed(ctx, operator.Filter{Group: "shop"}) {
			if err != nil {
				return err
			}
			fmt.Println(c.CampaignID, "failed at event", c.Seq)
			failed++
		}
		fmt.Println(failed, "failed")
		return op.Resume(ctx, shop)
	})
	fmt.Println(err)
	// Output:
	// 0 failed
	// <nil>
}

// Once the code is mended, all that failed for the same reason is retried. Workers do it.
func ExampleOperator_RequeueAll() {
	err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		op := operator.Operator{DB: pool, Name: "deploy-bot", Reason: "mended in 1.4.3"}
		_, err := op.RequeueAll(ctx, operator.Filter{Fingerprint: "3f2a8c1d90be"})
		fmt.Println(errors.Is(err, operator.ErrNotFound))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
