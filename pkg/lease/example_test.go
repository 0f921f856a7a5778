package lease_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// Drain the workers of a host before it goes down.
func ExampleDrain() {
	drain := func(ctx context.Context, pool *pgxpool.Pool, host string) error {
		workers, err := lease.Workers(ctx, pool)
		if err != nil {
			return err
		}
		for _, w := range workers {
			if w.Host != host {
				continue
			}
			if _, err := lease.Drain(ctx, pool, w.Owner, "anna"); err != nil {
				return err
			}
			fmt.Println(w.Owner, "gives back", w.CampaignsHeld, "campaigns")
		}
		return nil
	}
	_ = drain
}
