package applies

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

const (
	createCheckpoints = `
		CREATE TABLE checkpoints (
			campaign_id text COLLATE "C" PRIMARY KEY,
			seq         bigint NOT NULL
		)`

	readRange = `
		SELECT j.campaign_id, j.seq, j.payload
		FROM tidemark.journal j LEFT JOIN checkpoints c ON c.campaign_id = j.campaign_id
		WHERE j.campaign_id BETWEEN $1 AND $2 AND j.seq > coalesce(c.seq, 0) AND j.event_type = $3
		ORDER BY j.campaign_id, j.seq`

	upsertCheckpoint = `
		INSERT INTO checkpoints (campaign_id, seq) VALUES ($1, $2)
		ON CONFLICT (campaign_id) DO UPDATE SET seq = EXCLUDED.seq`
)

// Grouping is the number of connections, and the maximum size of a transaction.
type Grouping struct {
	Connections int
	Campaigns   int // at most, in a transaction
	Events      int // at most, in a transaction
}

// campaignsOf returns the number of whole campaigns of w that fit in a transaction.
func (g Grouping) campaignsOf(w harness.Workload) int {
	return max(1, min(g.Campaigns, g.Events/w.Events))
}

// bareLoop is the loop that one would write by hand for one process, without failures and new
// events. Each connection takes the next range of campaigns, reads their events, pipelines the
// UPSERTs and a checkpoint for each campaign, and commits. It has no queue, no lease and no fence.
type bareLoop struct {
	workload harness.Workload
	grouping Grouping
	payload  bool // the UPSERT takes the payload unchanged, like the one in the SQL file
}

func (l bareLoop) run(ctx context.Context, db *harness.Database) (float64, error) {
	pool, err := db.Pool(ctx, l.grouping.Connections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	for _, table := range []string{harness.CreateCharacters, createCheckpoints} {
		if _, err := pool.Exec(ctx, table); err != nil {
			return 0, fmt.Errorf("create the read model: %w", err)
		}
	}
	step := l.grouping.campaignsOf(l.workload)

	start := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(l.grouping.Connections)
	for first := 0; first < l.workload.Campaigns; first += step {
		group.Go(func() error {
			last := min(first+step, l.workload.Campaigns) - 1
			return pgx.BeginFunc(groupCtx, pool, func(tx pgx.Tx) error {
				return l.applyRange(groupCtx, tx, harness.CampaignID(first), harness.CampaignID(last))
			})
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("bare loop: %w", err)
	}
	rate := float64(l.workload.Total()) / time.Since(start).Seconds()
	return rate, harness.ExpectCount(ctx, pool, harness.CountCharacters, l.workload.Total())
}

func (l bareLoop) applyRange(ctx context.Context, tx pgx.Tx, first, last string) error {
	rows, err := tx.Query(ctx, readRange, first, last, harness.EventType)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	var (
		batch    pgx.Batch
		campaign string
		seq      int64
		payload  []byte
		previous string
		reached  int64
	)
	_, err = pgx.ForEachRow(rows, []any{&campaign, &seq, &payload}, func() error {
		if campaign != previous && previous != "" {
			batch.Queue(upsertCheckpoint, previous, reached)
		}
		if l.payload {
			batch.Queue(harness.UpsertPayload, campaign, string(payload))
		} else {
			var damage harness.DamageTaken
			if err := json.Unmarshal(payload, &damage); err != nil {
				return fmt.Errorf("decode event %d of %s: %w", seq, campaign, err)
			}
			batch.Queue(harness.UpsertCharacter, campaign, damage.CharacterID, damage.Damage)
		}
		previous, reached = campaign, seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	if previous == "" {
		return nil
	}
	batch.Queue(upsertCheckpoint, previous, reached)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("apply events: %w", err)
	}
	return nil
}

const (
	createDocuments = `CREATE TABLE rebuilt (
			campaign_id text COLLATE "C" NOT NULL,
			key         text COLLATE "C" NOT NULL,
			doc         jsonb NOT NULL,
			PRIMARY KEY (campaign_id, key)
		)`
	countDocuments = `SELECT coalesce(sum((doc ->> 'events')::bigint), 0)::bigint FROM rebuilt`

	readWhole = `SELECT campaign_id, payload FROM tidemark.journal
		WHERE campaign_id BETWEEN $1 AND $2 AND event_type = $3 ORDER BY campaign_id, seq`

	bareFoldEvents = 20_000 // in a transaction, as in a rebuild
)

// bareFold is a rebuild written by hand for a journal at rest. Each connection takes the next range
// of campaigns, reads the columns that the fold needs, folds events in memory, copies the documents
// into an empty table, and commits. It keeps no registry, no notes and no checkpoints, handles no
// failure, and swaps no tables.
func (l bareLoop) fold(ctx context.Context, db *harness.Database) (float64, error) {
	pool, err := db.Pool(ctx, l.grouping.Connections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	start := time.Now()
	if _, err := pool.Exec(ctx, createDocuments); err != nil {
		return 0, fmt.Errorf("create the read model: %w", err)
	}
	step := max(1, bareFoldEvents/l.workload.Events)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(l.grouping.Connections)
	for first := 0; first < l.workload.Campaigns; first += step {
		group.Go(func() error {
			last := min(first+step, l.workload.Campaigns) - 1
			return pgx.BeginFunc(groupCtx, pool, func(tx pgx.Tx) error {
				return foldRange(groupCtx, tx, harness.CampaignID(first), harness.CampaignID(last))
			})
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("bare fold: %w", err)
	}
	rate := float64(l.workload.Total()) / time.Since(start).Seconds()
	return rate, harness.ExpectCount(ctx, pool, countDocuments, l.workload.Total())
}

func foldRange(ctx context.Context, tx pgx.Tx, first, last string) error {
	rows, err := tx.Query(ctx, readWhole, first, last, harness.EventType)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	type place struct{ campaign, character string }
	documents, order := map[place]*harness.Character{}, []place{}
	var campaign string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&campaign, &payload}, func() error {
		var damage harness.DamageTaken
		if err := json.Unmarshal(payload, &damage); err != nil {
			return fmt.Errorf("decode an event of %s: %w", campaign, err)
		}
		at := place{campaign, damage.CharacterID}
		c := documents[at]
		if c == nil {
			c = new(harness.Character)
			documents[at], order = c, append(order, at)
		}
		c.Damage += damage.Damage
		c.Events++
		return nil
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"rebuilt"}, []string{"campaign_id", "key", "doc"},
		pgx.CopyFromSlice(len(order), func(i int) ([]any, error) {
			doc, err := json.Marshal(documents[order[i]])
			return []any{order[i].campaign, order[i].character, doc}, err
		}))
	if err != nil {
		return fmt.Errorf("copy the documents: %w", err)
	}
	return nil
}
