package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// register adds rows for pairs that have none, each at its publisher's Start.
func (c *claimer) register(ctx context.Context, conn *pgxpool.Conn) error {
	if err := feed.CheckRowSecurity(ctx, conn); err != nil {
		return err
	}
	known, err := ledger.Registered(ctx, conn)
	if err != nil {
		return fmt.Errorf("register pairs: %w", err)
	}
	var missing []publications.Key
	var positions []int64
	starts := map[Start]int64{}
	for key, route := range c.routes {
		if known[key] {
			continue
		}
		start := route.to.Start
		position, resolved := starts[start]
		if !resolved {
			if position, err = start.resolve(ctx, conn); err != nil {
				return fmt.Errorf("register %s: %w", key, err)
			}
			starts[start] = position
		}
		missing, positions = append(missing, key), append(positions, position)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := ledger.Register(ctx, conn, ledger.Publisher, missing, positions); err != nil {
		return fmt.Errorf("register pairs: %w", err)
	}
	return nil
}

// resolve returns the position after which a new pair starts.
func (s Start) resolve(ctx context.Context, db journal.Querier) (int64, error) {
	switch {
	case s.End:
		return feed.Floor(ctx, db)
	case !s.At.IsZero():
		return feed.PositionAt(ctx, db, s.At)
	}
	return s.After, nil
}

func (c *claimer) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 5*time.Second)
	defer cancel()
	if err := c.db.Forget(ctx); err != nil {
		c.cfg.Logger.WarnContext(ctx, "cannot write that this process has stopped", "error", err)
	}
}
