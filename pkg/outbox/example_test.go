package outbox_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// A line without a projection covers all projections of the group that are in step.
func ExampleLag() {
	show := func(ctx context.Context, pool *pgxpool.Pool) error {
		lag, err := outbox.Lag(ctx, pool)
		if err != nil {
			return err
		}
		for _, b := range lag {
			fmt.Println(b.Group, b.Projection, b.Events, b.Campaigns, b.Age)
		}
		return nil
	}
	_ = show
}
