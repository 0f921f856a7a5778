package publishes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

const (
	besideFor    = time.Second / 2 // of a slice
	besideSlices = 6               // of each number of pairs, in a round
	besideWarmUp = 200 * time.Millisecond

	deletePairs = `DELETE FROM tidemark.readers`
	countHeld   = `SELECT count(*) = $1 FROM tidemark.readers WHERE expires_at > clock_timestamp()`
)

// beside runs clients that append events one by one while a relay in this process publishes them to
// the given number of pairs.
type beside struct {
	clients, pairs int
	length         time.Duration
}

// run returns the median time of one append in milliseconds. The pairs are new and start at the end
// of the journal.
func (a beside) run(ctx context.Context, pool *pgxpool.Pool) (took float64, err error) {
	if _, err := pool.Exec(ctx, deletePairs); err != nil {
		return 0, fmt.Errorf("delete the pairs: %w", err)
	}
	cfg := harness.RelayConfig(pool, discarding{}, a.pairs)
	for i := range cfg.Publishers {
		cfg.Publishers[i].Start = publisher.Start{End: true}
	}
	relay, err := publisher.New(cfg)
	if err != nil {
		return 0, err
	}
	stop := harness.StartRelay(ctx, relay)
	defer func() {
		if stopErr := stop(); err == nil {
			err = stopErr
		}
	}()
	for held := false; !held; {
		if err := pool.QueryRow(ctx, countHeld, a.pairs).Scan(&held); err != nil {
			return 0, fmt.Errorf("wait for the pairs: %w", err)
		}
	}
	return a.append(ctx, pool)
}

func (a beside) append(ctx context.Context, pool *pgxpool.Pool) (float64, error) {
	payload, err := harness.DamagePayload(1)
	if err != nil {
		return 0, err
	}
	took := make([]harness.Samples, a.clients)
	from := time.Now().Add(besideWarmUp)
	until := from.Add(a.length)
	group, groupCtx := errgroup.WithContext(ctx)
	for client := range a.clients {
		group.Go(func() error {
			for call := 0; ; call++ {
				campaign := harness.CampaignID(client*harness.AppendCampaigns + call%harness.AppendCampaigns)
				begin := time.Now()
				err := pgx.BeginFunc(groupCtx, pool, func(tx pgx.Tx) error {
					_, err := journal.Journal{}.Append(groupCtx, tx, campaign, journal.Any,
						event.Event{Type: harness.EventType, Payload: payload})
					return err
				})
				if err != nil {
					return err
				}
				now := time.Now()
				if begin.After(from) {
					took[client] = append(took[client], float64(now.Sub(begin).Nanoseconds())/1e6)
				}
				if now.After(until) && len(took[client]) > 0 { // an append that outlasts the slice still counts for it
					return nil
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	return harness.Samples(slices.Concat(took...)).Median(), nil
}

// MeasureBeside alternates in short slices and compares the median append of each. The cost of a
// commit changes from second to second, and a few commits that wait for the disk take up most of a
// slice.
func MeasureBeside(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	pool, err := harness.OpenRelayPool(ctx, db)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var figures []harness.Figure
	for _, clients := range []int{1, 8} {
		side := func(pairs int) harness.Side {
			run := beside{clients: clients, pairs: pairs, length: b.ScaledTime(besideFor)}
			return harness.Side{
				Name: fmt.Sprintf("%d clients append, %d pairs", clients, pairs),
				Run:  func(ctx context.Context) (float64, error) { return run.run(ctx, pool) },
			}
		}
		turns := *b
		turns.Rounds *= besideSlices
		samples, err := turns.Interleave(ctx, "ms", side(harness.PublishPairs), side(1))
		if err != nil {
			return nil, err
		}
		figures = append(figures, harness.AtMost(1.05, harness.Figure{
			Name: fmt.Sprintf("publish_append_%d", clients), Value: samples[0].Median(), Unit: "ms",
			Ratio: samples[0].Over(samples[1]),
			To: fmt.Sprintf("%d clients appending with one pair instead of %d, the relay running beside", clients,
				harness.PublishPairs),
		}))
	}
	return figures, nil
}
