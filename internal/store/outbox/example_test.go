package outbox_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// A new group starts with the first event of every campaign.
func ExampleRegister() {
	start := func(ctx context.Context, pool *pgxpool.Pool) error {
		if err := outbox.Register(ctx, pool, "search"); err != nil {
			return err
		}
		groups, err := outbox.Report(ctx, pool)
		if err != nil {
			return err
		}
		for _, g := range groups {
			fmt.Println(g.Group, g.Pending, g.Processing, g.Failed, g.Dead)
		}
		return nil
	}
	_ = start
}
