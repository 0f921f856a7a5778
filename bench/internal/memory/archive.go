package memory

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

const (
	keptEvery = 10 // campaigns: the others are archived

	withoutGroups  = `DELETE FROM tidemark.outbox; DELETE FROM tidemark.consumer_groups`
	campaignsCatch = `SELECT NOT EXISTS (SELECT FROM tidemark.outbox) AND EXISTS (SELECT FROM tidemark.consumer_groups)
		AND NOT EXISTS (SELECT FROM tidemark.consumer_groups WHERE state = 'filing')`
	acrossCatches = `SELECT coalesce(min(position) >= (SELECT max(position) FROM tidemark.journal), false) FROM tidemark.readers`
)

// MeasureArchive builds read models of journals whose campaigns are archived, but for one in ten, and
// compares the worker's peak memory with that for a quarter of the journal.
func MeasureArchive(ctx context.Context, b *harness.Bench) (figures []harness.Figure, err error) {
	for _, scope := range []struct{ name, files, catchesUp string }{
		{"archive_memory_campaigns", harness.Campaigns, campaignsCatch},
		{"archive_memory_across", harness.Across, acrossCatches},
	} {
		var peaks [2]int64
		for i, campaigns := range []int{b.Scaled(5000), b.Scaled(20_000)} {
			w := harness.Workload{Campaigns: campaigns, Events: 100, Whole: true}
			if peaks[i], err = buildArchived(ctx, b, w, scope.files, scope.catchesUp); err != nil {
				return nil, fmt.Errorf("%s: %w", scope.name, err)
			}
			b.Logf("%s: %d events, peak %d MiB", scope.name, w.Total(), peaks[i]>>20)
		}
		figures = append(figures, harness.AtMost(1.25, harness.Figure{
			Name: scope.name, Value: float64(peaks[1]) / (1 << 20), Unit: "MiB",
			Ratio: float64(peaks[1]) / float64(peaks[0]), To: "the same with a quarter of the events",
		}))
	}
	return figures, nil
}

// buildArchived returns the peak memory of a worker that builds a read model.
func buildArchived(
	ctx context.Context, b *harness.Bench, w harness.Workload, files, catchesUp string,
) (peak int64, err error) {
	db, err := b.Filled(ctx, w)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Drop(context.WithoutCancel(ctx))) }()
	folder, err := os.MkdirTemp("", "tidemark-archive")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	pool, err := db.Pool(ctx, 4)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := archiveMost(ctx, pool, w, folder); err != nil {
		return 0, err
	}
	worker, err := harness.StartProgram(ctx, "./cmd/worker", "TIDEMARK_DATABASE_URL="+db.URL,
		"TIDEMARK_PROJECTIONS_DIR="+files, "TIDEMARK_HTTP_ADDR=off", "TIDEMARK_LOG_FORMAT=json",
		"TIDEMARK_ARCHIVE_URL=file://"+folder)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.Stop()) }()
	conn, err := db.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := worker.Until(ctx, conn, catchesUp); err != nil {
		return 0, err
	}
	var applied int
	if err := conn.QueryRow(ctx, harness.CountCharacters).Scan(&applied); err != nil || applied != w.Total() {
		return 0, fmt.Errorf("%d of %d events are in the read model: %w", applied, w.Total(), err)
	}
	return worker.PeakMemory()
}

func archiveMost(ctx context.Context, pool *pgxpool.Pool, w harness.Workload, folder string) error {
	store, err := archive.NewFolder(folder)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if _, err := pool.Exec(ctx, withoutGroups); err != nil {
		return err
	}
	r := archive.Request{By: "bench", Reason: "a measure"}
	for i := range w.Campaigns {
		if i%keptEvery != 0 {
			r.Campaigns = append(r.Campaigns, harness.CampaignID(i))
		}
	}
	done, err := archive.Run(ctx, pool, store, r)
	if err == nil && done.Campaigns != int64(len(r.Campaigns)) {
		err = fmt.Errorf("archived %+v", done)
	}
	return err
}
