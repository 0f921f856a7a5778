package scale

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/pages"
	"github.com/tidemark-go/tidemark/internal/surface/web"
)

const (
	fewFailed    = 5_000
	manyFailed   = 5_000_000
	pagesAtOnce  = 4 // connections of the admin listener
	pageReadings = 9 // of each page in a round
	pagesTimeout = 10 * time.Second

	// Of ten rows six are dead, three failed and one is rebuilding, in two projections with twenty
	// causes each. Indexes are created afterwards, as in a restore.
	fillPairs = `
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
			next_attempt_at, error_class, error_code, error_message, fingerprint, first_failed_at, last_failed_at)
		SELECT 'campaign-' || lpad((i / 2)::text, 7, '0'), CASE i % 2 WHEN 0 THEN 'scores' ELSE 'heroes' END, $1, 1,
			CASE WHEN i % 10 < 6 THEN 'dead' WHEN i % 10 < 9 THEN 'failed' ELSE 'catching_up' END, 3, CASE
				WHEN i % 10 < 6 THEN 'infinity' ELSE now() + i % 3600 * interval '1 s' END,
			CASE WHEN i % 10 < 9 THEN 'permanent' END, CASE WHEN i % 10 < 9 THEN 'error' END, CASE
				WHEN i % 10 < 9 THEN 'cannot apply it: cause ' || i / 10 % 20 END,
			CASE WHEN i % 10 < 9 THEN 'cause-' || i / 10 % 20 END, CASE
				WHEN i % 10 < 9 THEN now() - i % 86400 * interval '1 s' END, CASE WHEN i % 10 < 9 THEN now() END
		FROM generate_series(0, $2 - 1) AS i`
	fillPairsRegistry = `
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		SELECT p, $1, 1, 'public', ARRAY[p], 'active' FROM unnest('{scores,heroes}'::text[]) AS p`
	// Only the first campaigns have events: a page shows a few of them, and they are the same on
	// both sides.
	fillPairsJournal = `
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		SELECT 'campaign-' || lpad(c::text, 7, '0'), 1, c + 1, gen_random_uuid(), 'x', 1, 'projection_and_replay', '{}', 2,
			now(), now() FROM generate_series(0, $1 - 1) AS c`
)

// Pages returns the path of each page that reads failed campaigns, or could.
func Pages() []string {
	campaign := url.QueryEscape("campaign-0000007")
	return []string{
		"/", "/campaigns", "/campaigns?prefix=campaign-00", "/campaign?id=" + campaign, "/event?seq=1&campaign=" + campaign,
		"/failed", "/failed?of=all", "/failed?of=all&status=dead", "/failed?projection=scores",
		"/failed?projection=scores&fingerprint=cause-6", "/failed?of=all&class=transient",
		"/failed?of=all&campaign=" + campaign, "/failed/campaign?projection=scores&campaign=" + campaign,
		"/act/requeueManyFailed", "/operations", "/parked", "/projections", "/publishers", "/workers", "/audit",
		"/audit?of=failures", "/settings",
	}
}

// pageSide serves the pages of one database.
type pageSide struct {
	handler http.Handler
	close   func()
}

func newPageSide(
	ctx context.Context, b *harness.Bench, template *harness.Database, pairs int,
) (_ *pageSide, err error) {
	db, err := b.Server.Clone(ctx, template.Name)
	if err != nil {
		return nil, err
	}
	s := &pageSide{close: func() { _ = db.Drop(context.WithoutCancel(ctx)) }}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	start := time.Now()
	if err := fillPages(ctx, db, pairs); err != nil {
		return nil, fmt.Errorf("fill %d pairs: %w", pairs, err)
	}
	b.Logf("%d pairs that are behind after %s", pairs, time.Since(start).Round(time.Millisecond))
	pool, err := web.NewPool(ctx, db.URL, pagesAtOnce, pagesTimeout, nil)
	if err != nil {
		return nil, err
	}
	drop := s.close
	s.close = func() {
		pool.Close()
		drop()
	}
	acts, err := admin.New(admin.Config{Pool: pool})
	if err != nil {
		return nil, err
	}
	s.handler, err = pages.New(pages.Config{
		Pool: pool, Acts: acts,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	return s, err
}

// fillPages fills the table without its indexes, then recreates them.
func fillPages(ctx context.Context, db *harness.Database, pairs int) error {
	pool, err := db.Pool(ctx, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, `SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
		WHERE indrelid = 'tidemark.failed'::regclass AND NOT indisprimary`)
	if err != nil {
		return err
	}
	var made []string
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			return err
		}
		made = append(made, "DROP INDEX "+name, definition)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for i := 0; i < len(made); i += 2 {
		if _, err := conn.Exec(ctx, made[i]); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "ALTER TABLE tidemark.failed SET UNLOGGED"); err != nil { // read-only from here on
		return err
	}
	for _, fill := range []struct {
		sql  string
		args []any
	}{
		{fillPairs, []any{harness.ConsumerGroup, pairs}},
		{fillPairsRegistry, []any{harness.ConsumerGroup}},
		{fillPairsJournal, []any{fewFailed / 2}},
	} {
		if _, err := conn.Exec(ctx, fill.sql, fill.args...); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "SET maintenance_work_mem = '512MB'"); err != nil {
		return err
	}
	for i := 1; i < len(made); i += 2 {
		if _, err := conn.Exec(ctx, made[i]); err != nil {
			return err
		}
	}
	return db.Settle(ctx)
}

// read returns the time to serve a page, in milliseconds.
func (s *pageSide) read(ctx context.Context, path string) (float64, error) {
	request := httptest.NewRequestWithContext(auth.With(ctx,
		auth.Identity{Name: "bench", Role: auth.Admin, Via: "token"}), http.MethodGet, path, nil)
	answer := httptest.NewRecorder()
	start := time.Now()
	s.handler.ServeHTTP(answer, request)
	took := time.Since(start)
	if answer.Code != http.StatusOK {
		return 0, fmt.Errorf("page %s answers %d", path, answer.Code)
	}
	return float64(took.Microseconds()) / 1000, nil
}

func MeasurePages(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = template.Drop(context.WithoutCancel(ctx)) }()
	few, err := newPageSide(ctx, b, template, fewFailed)
	if err != nil {
		return nil, err
	}
	defer few.close()
	many, err := newPageSide(ctx, b, template, b.Scaled(manyFailed))
	if err != nil {
		return nil, err
	}
	defer many.close()
	worst := harness.Figure{Name: "pages", Unit: "ms"}
	for _, path := range Pages() {
		var small, large harness.Samples
		for i := range b.Rounds*pageReadings + 1 {
			a, err := few.read(ctx, path)
			if err != nil {
				return nil, err
			}
			z, err := many.read(ctx, path)
			if err != nil {
				return nil, err
			}
			if i > 0 { // the first readings prepare statements
				small, large = append(small, a), append(large, z)
			}
		}
		ratio := large.Median() / small.Median()
		b.Logf("%-60s %8.2f ms, %8.2f ms with few: %.2f", path, large.Median(), small.Median(), ratio)
		if ratio > worst.Ratio {
			worst.Ratio, worst.Value, worst.To = ratio, large.Median(),
				fmt.Sprintf("the same page (%s) with %d pairs that are behind", path, fewFailed)
		}
	}
	return []harness.Figure{harness.AtMost(2, worst)}, nil
}
