package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// digest depends on every event of a campaign and key, and on their order.
type digest struct {
	Count  int   `json:"count"`
	Digest int64 `json:"digest"`
}

func (d *digest) fold(e event.Event) error {
	m, err := event.Decode[moved](e)
	d.Count++
	d.Digest = (d.Digest*31 + int64(m.By) + e.Seq) % 1_000_003
	return err
}

func digestKey(e event.Event) (string, error) {
	m, err := event.Decode[moved](e)
	return strconv.Itoa(m.By % 4), err
}

// digests keeps several documents per campaign, so transactions write the same rows in different
// orders.
func digests() projection.Projection {
	return projection.Document[digest]{
		Name: "digests", Version: 1, Types: []string{"moved"}, Key: digestKey, Fold: func(d *digest, e event.Event) error {
			return d.fold(e)
		},
	}
}

// entries writes a row for each applied event, to a table without a unique key. It uses the
// transaction directly, which locks its rows early.
func entries() projection.Projection {
	return projection.Handlers{
		Name: "entries", Version: 1, Tables: `
		CREATE TABLE entries (n bigint GENERATED ALWAYS AS IDENTITY, campaign_id text, seq bigint);
		CREATE TABLE last_entry (campaign_id text PRIMARY KEY, seq bigint)`,
		On: []projection.Handler{
			projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, m moved) error {
				g.Queue(`INSERT INTO entries (campaign_id, seq) VALUES ($1, $2)`, e.CampaignID, e.Seq)
				g.Queue(`INSERT INTO last_entry VALUES ($1, $2) ON CONFLICT (campaign_id) DO UPDATE
			SET seq = excluded.seq`, e.CampaignID, e.Seq)
				if m.By%7 != 0 {
					return nil
				}
				_, err := g.Tx(ctx)
				return err
			}),
		},
	}
}

// verify compares the tables with a fold of the journal.
func verify(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	want := map[string]digest{}
	events := 0
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		key, err := digestKey(e)
		if err != nil {
			t.Fatal(err)
		}
		d := want[e.CampaignID+"/"+key]
		if err := d.fold(e); err != nil {
			t.Fatal(err)
		}
		want[e.CampaignID+"/"+key] = d
		events++
	}
	rows, err := pool.Query(t.Context(), `SELECT campaign_id || '/' || key, doc FROM digests`)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var got digest
	n := 0
	if _, err := pgx.ForEachRow(rows, []any{&id, &got}, func() error {
		n++
		if got != want[id] {
			t.Errorf("document %s is %+v, the fold gives %+v", id, got, want[id])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n != len(want) {
		t.Errorf("%d documents, the fold gives %d", n, len(want))
	}
	expectCounts(t, pool, map[string]int{
		`SELECT count(*) FROM entries`: events,
		`SELECT count(*) FROM (SELECT seq, row_number() OVER (PARTITION BY campaign_id ORDER BY n) AS place FROM entries) e
			WHERE seq <> place`: 0,
		`SELECT count(*) FROM tidemark.failed`: 0,
	})
}

// TestApplyInlineBesideWorkers runs on a few campaigns at once: appends with ApplyInline, appends
// without it, appends that roll back, and two workers.
func TestApplyInlineBesideWorkers(t *testing.T) {
	t.Parallel()
	for name, bestEffort := range map[string]bool{"strictly": false, "with_best_effort": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			cfg := projector.Config{
				Projections: []projection.Projection{entries(), digests()},
				Mode:        projection.ModeOutboxApplyOnly, GroupEvents: 20,
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var workers errgroup.Group
			for range 2 {
				own, err := pgxpool.New(t.Context(), pgtest.UTF8(pool.Config().ConnString()))
				if err != nil {
					t.Fatal(err)
				}
				defer own.Close()
				worker := cfg
				worker.Pool, worker.PollInterval, worker.Concurrency = own, 100*time.Millisecond, 2
				p, err := projector.New(worker)
				if err != nil {
					t.Fatal(err)
				}
				workers.Go(func() error { return p.Run(ctx) })
			}
			cfg.InlineBestEffort = bestEffort
			p := inlineProjector(t, pool, cfg)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			errRolledBack := errors.New("rolled back")
			var appenders errgroup.Group
			for i := range 4 {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				appenders.Go(func() error {
					for range 60 {
						batches := make([]journal.Batch, 1+r.IntN(2))
						first := r.IntN(5)
						for b := range batches {
							by := make([]int, 1+r.IntN(4))
							for j := range by {
								by[j] = r.IntN(100)
							}
							batches[b] = journal.Batch{CampaignID: fmt.Sprintf("c%d", (first+b)%5), Events: moveEvents(by...)}
						}
						plain, rollBack := r.IntN(3) == 0, r.IntN(8) == 0
						err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
							appended, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
							if err == nil && !plain {
								err = p.ApplyInline(t.Context(), tx, slices.Clone(appended)...)
							}
							if err == nil && rollBack {
								err = errRolledBack
							}
							return err
						})
						if err != nil && !errors.Is(err, errRolledBack) {
							return err
						}
					}
					return nil
				})
			}
			if err := appenders.Wait(); err != nil {
				t.Error(err)
			}
			deadline := time.Now().Add(2 * time.Minute)
			for query[int](t, pool, `SELECT (SELECT count(*) FROM tidemark.outbox) + (SELECT count(*) FROM tidemark.leases
				WHERE expires_at > now())`) > 0 && time.Now().Before(deadline) {
			}
			stop()
			if err := workers.Wait(); err != nil {
				t.Error(err)
			}
			verify(t, pool)
		})
	}
}
