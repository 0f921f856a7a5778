package applies

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	createPlace = `
		CREATE TABLE place (position bigint NOT NULL);
		INSERT INTO place VALUES (0)`

	readPage = `
		SELECT j.position, j.payload
		FROM tidemark.journal j
		WHERE j.position > (SELECT position FROM place) AND j.event_type = $1
		ORDER BY j.position LIMIT $2`

	movePlace = `UPDATE place SET position = $1`
)

// acrossGroups is the grouping of work across campaigns, on both sides.
func acrossGroups() Grouping { return Grouping{Connections: 4, Events: 5000} }

// acrossLoop is the loop that one would write by hand for a read model across campaigns. Its one
// connection reads the journal in the order of position, page by page, pipelines the UPSERTs of a page
// and its place, and commits. It has no lease and no fence, and looks out for no append in flight.
type acrossLoop struct {
	workload harness.Workload
	grouping Grouping
}

func (l acrossLoop) run(ctx context.Context, db *harness.Database) (float64, error) {
	pool, err := db.Pool(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	for _, table := range []string{harness.CreateCharactersAcross, createPlace} {
		if _, err := pool.Exec(ctx, table); err != nil {
			return 0, fmt.Errorf("create the read model: %w", err)
		}
	}
	start := time.Now()
	for applied := l.grouping.Events; applied == l.grouping.Events; {
		if applied, err = l.page(ctx, pool); err != nil {
			return 0, fmt.Errorf("bare loop: %w", err)
		}
	}
	rate := float64(l.workload.Total()) / time.Since(start).Seconds()
	return rate, harness.ExpectCount(ctx, pool, harness.CountCharacters, l.workload.Total())
}

func (l acrossLoop) page(ctx context.Context, pool *pgxpool.Pool) (applied int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, readPage, harness.EventType, l.grouping.Events)
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		var batch pgx.Batch
		var position int64
		var payload []byte
		if _, err = pgx.ForEachRow(rows, []any{&position, &payload}, func() error {
			var damage harness.DamageTaken
			if err := json.Unmarshal(payload, &damage); err != nil {
				return fmt.Errorf("decode event %d: %w", position, err)
			}
			batch.Queue(harness.UpsertCharacterAcross, damage.CharacterID, damage.Damage)
			return nil
		}); err != nil || batch.Len() == 0 {
			return err
		}
		applied = batch.Len()
		batch.Queue(movePlace, position)
		return tx.SendBatch(ctx, &batch).Close()
	})
	return applied, err
}

// filledAcross creates a database with the workload in the journal and an empty queue: projections
// across campaigns do not use it.
func filledAcross(ctx context.Context, b *harness.Bench, w harness.Workload) (*harness.Database, error) {
	db, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	return db, emptyQueue(ctx, db)
}

func emptyQueue(ctx context.Context, db *harness.Database) error {
	pool, err := db.Pool(ctx, denseGroups().Connections+2)
	if err != nil {
		return err
	}
	defer pool.Close()
	worker, err := projector.New(projector.Config{Pool: pool, ConsumerGroup: harness.ConsumerGroup, GroupEvents: 5000})
	if err != nil {
		return err
	}
	if _, err := worker.Drain(ctx); err != nil {
		return fmt.Errorf("empty the queue: %w", err)
	}
	pool.Close()
	return db.Settle(ctx)
}

// MeasureAcross compares documents across campaigns with the bare loop, with few and with many keys,
// and four partitions with one.
func MeasureAcross(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	var figures []harness.Figure
	for _, keys := range []struct {
		name string
		n    int
	}{{"hot", 100}, {"cold", b.Scaled(100_000)}} {
		w := harness.Workload{Campaigns: b.Scaled(3000), Events: 100, Whole: true, Characters: keys.n}
		template, err := filledAcross(ctx, b, w)
		if err != nil {
			return nil, err
		}
		side := func(partitions int) harness.Side {
			kind := harness.DocumentAcross(partitions)
			return b.On(template, kind.Name, backlog{kind: kind, workload: w, grouping: acrossGroups()}.run)
		}
		samples, err := b.Interleave(ctx, "events/s",
			b.On(template, "bare loop", acrossLoop{workload: w, grouping: acrossGroups()}.run), side(1), side(4))
		template.Drop(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		figures = append(figures,
			harness.AtLeast(1, harness.Figure{
				Name: "across_" + keys.name, Value: samples[1].Median(), Unit: "events/s", Ratio: samples[1].Over(samples[0]),
				To: fmt.Sprintf("a bare loop, %d × %d events, %d keys", w.Campaigns, w.Events, keys.n),
			}),
			harness.AtLeast(1, harness.Figure{
				Name: "across_" + keys.name + "_4", Value: samples[2].Median(), Unit: "events/s",
				Ratio: samples[2].Over(samples[1]), To: "one partition in place of four",
			}))
	}
	return figures, nil
}
