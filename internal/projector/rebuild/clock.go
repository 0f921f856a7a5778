package rebuild

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
)

const (
	clockEvery = 30 * time.Second
	clockPairs = 1000 // in one transaction
	clockSlack = time.Minute
)

// MendClock looks, now and then, for times of a server's clock that has gone back since: of pairs and
// pauses, as the claim does of leases.
func (m *Maintainer) MendClock(ctx context.Context) {
	for ok := true; ok; ok = registry.Sleep(ctx, clockEvery) {
		for more := true; more && ctx.Err() == nil; {
			pairs, paused, err := m.mendTimes(ctx)
			if err != nil && ctx.Err() == nil {
				m.Cfg.Logger.WarnContext(ctx, "times that are too far ahead not looked for", "error", err)
			}
			if pairs > 0 || paused > 0 {
				m.Cfg.Logger.WarnContext(ctx,
					"the database server's clock has gone back: failed campaigns are due, pauses begin now",
					"rows", pairs+int64(paused))
			}
			more = err == nil && pairs >= clockPairs
		}
	}
}

func (m *Maintainer) mendTimes(ctx context.Context) (pairs int64, paused int, err error) {
	longest := map[string]time.Duration{}
	for _, k := range m.Sets {
		longest[k.Name] = max(longest[k.Name], k.LongestWait()+clockSlack)
	}
	bounded, cancel := m.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(bounded, m.Cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(bounded, registry.QueryExclusivePatience); err != nil {
			return err
		}
		if pairs, err = failed.MendClock(bounded, tx, m.Cfg.ConsumerGroup, longest, clockPairs); err != nil {
			return err
		}
		paused, err = pauses.MendClock(bounded, tx, m.Cfg.ConsumerGroup)
		return err
	})
	return pairs, paused, err
}
