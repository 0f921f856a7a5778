package latency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

const (
	replayedKey   = "character-1"
	replayEvery   = 20 * time.Millisecond // how often a replay that has ended is asked for again
	caughtUp      = `SELECT coalesce(sum(events), 0) >= $1 FROM characters`
	nothingBehind = `SELECT NOT EXISTS (SELECT FROM tidemark.failed)`
	visibleLive   = `SELECT coalesce((SELECT events FROM characters WHERE character_id = 'character-%d'), 0)`
)

// MeasureReplay alternates between live appends while nothing else is to do, and while one key is
// replayed from the beginning of the journal, again and again.
func MeasureReplay(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := harness.Workload{Campaigns: b.Scaled(5000), Events: 100, Whole: true, Characters: b.Scaled(1000)}
	db, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	l, err := newLatency(ctx, db)
	if err != nil {
		return nil, err
	}
	defer l.close(context.WithoutCancel(ctx))
	l.visible = fmt.Sprintf(visibleLive, w.Characters)
	live := harness.DamageTaken{CharacterID: fmt.Sprintf("character-%d", w.Characters), Damage: 1, Source: "live"}
	if l.payload, err = json.Marshal(live); err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, db.URL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	worker, err := harness.StartWorker(ctx, db, harness.Across)
	if err != nil {
		return nil, err
	}
	figures, err := l.takeReplay(ctx, b, worker, pool, w)
	return figures, errors.Join(err, worker.Stop())
}

func (l *latency) takeReplay(
	ctx context.Context, b *harness.Bench, worker *harness.Worker, pool *pgxpool.Pool, w harness.Workload,
) ([]harness.Figure, error) {
	if err := worker.Until(ctx, l.look, tableExists); err != nil {
		return nil, err
	}
	if err := worker.Until(ctx, l.look, caughtUp, w.Total()); err != nil {
		return nil, err
	}
	var alone, beside harness.Samples
	for round := range b.Rounds {
		calm, err := l.appendToVisible(ctx, b.ScaledTime(latencyFor))
		if err != nil {
			return nil, err
		}
		busy, replays, err := l.besideReplay(ctx, b, pool)
		if err != nil {
			return nil, err
		}
		if err := worker.Until(ctx, l.look, nothingBehind); err != nil {
			return nil, err
		}
		alone, beside = append(alone, calm.Median()), append(beside, busy.Median())
		b.Logf("round %d  visible p50 %.2f ms, p99 %.2f ms; beside %d replays of a key p50 %.2f ms, p99 %.2f ms, %d appends",
			round+1, alone[round], calm.Quantile(0.99), replays, beside[round], busy.Quantile(0.99), len(busy))
	}
	return []harness.Figure{harness.AtMost(1.2, harness.Figure{
		Name: "replay_latency", Value: beside.Median(), Unit: "ms", Ratio: beside.Over(alone),
		To: fmt.Sprintf("nothing is replayed, %.2f ms", alone.Median()),
	})}, nil
}

// besideReplay measures live appends while a key is replayed, and returns how often it was.
func (l *latency) besideReplay(
	ctx context.Context, b *harness.Bench, pool *pgxpool.Pool,
) (times harness.Samples, replays int, err error) {
	if replays, err = replayOnce(ctx, pool); err != nil {
		return nil, 0, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	appending, stop := context.WithCancel(groupCtx)
	group.Go(func() error {
		look := time.NewTicker(replayEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
			case <-appending.Done():
				return nil
			}
			filed, err := replayOnce(groupCtx, pool)
			if err != nil {
				return err
			}
			replays += filed
		}
	})
	group.Go(func() (err error) {
		defer stop()
		times, err = l.appendToVisible(groupCtx, b.ScaledTime(latencyFor))
		return err
	})
	err = group.Wait()
	return times, replays, err
}

// replayOnce asks for a replay of the key unless it is being replayed, and returns how many it asked for.
func replayOnce(ctx context.Context, pool *pgxpool.Pool) (replays int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var idle bool
		if err := tx.QueryRow(ctx, nothingBehind).Scan(&idle); err != nil || !idle {
			return err
		}
		filed, err := failed.Replay(ctx, tx, failed.ReplayRequest{
			Group: harness.ConsumerGroup, Projection: "characters", Campaigns: []string{replayedKey},
		}, failed.Act{By: "bench", Reason: "replay_latency"})
		replays = int(filed)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("replay a key: %w", err)
	}
	return replays, nil
}
