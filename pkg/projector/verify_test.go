package projector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// verified runs Verify and returns the differences as "kind table campaign columns".
func verified(t *testing.T, p *projector.Projector, r lookback.VerifyRequest) (lookback.VerifyReport, []string) {
	t.Helper()
	var found []string
	r.OnDifference = func(d lookback.Difference) {
		found = append(found, strings.TrimSpace(fmt.Sprint(d.Kind, " ", d.Table, " ", d.CampaignID, " ",
			strings.Join(d.Columns, ","))))
	}
	report, err := p.Verify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return report, found
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: kinds(t, "x"), GroupEvents: 7})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		appendMoves(t, pool, fmt.Sprintf("c%02d", i), 1, 2, 3, 4, 5, 7, 6, i, 1, 2)
	}
	drain(t, p)
	appendMoves(t, pool, "c03", 1, 2) // not applied yet, so not a difference
	for _, name := range []string{"document_x", "handlers_x", "file_x"} {
		report, found := verified(t, p, lookback.VerifyRequest{Projection: name, All: true})
		if len(found) > 0 || report.Campaigns != 20 || report.Total != 20 || report.Events != 200 ||
			report.Differences() != 0 || report.Tables[0].Rows < 20 {
			t.Errorf("%s: %+v, %q", name, report, found)
		}
	}
	tests := []struct {
		name, projection string
		change           string
		want             []string
	}{
		{"a deleted row", "handlers_x", `DELETE FROM a_child_x WHERE campaign_id = 'c05'
			AND number = 3`, []string{"missing a_child_x c05"}},
		{"an extra row", "file_x", `INSERT INTO file_x VALUES ('c99', 1)`, []string{"stray file_x c99"}},
		{"an extra row of a campaign", "document_x", `INSERT INTO document_x VALUES ('c07', 'odd',
			'{}')`, []string{"extra document_x c07"}},
		{"a changed column", "handlers_x", `UPDATE a_child_x SET seq = 77 WHERE campaign_id = 'c09'
			AND number = 2`, []string{"different a_child_x c09 seq"}},
		{"a changed document", "document_x", `UPDATE document_x SET doc = doc || '{"sum": 0}' WHERE campaign_id = 'c10'
			AND key = '1'`, []string{"different document_x c10 doc"}},
		{"a row of the wrong campaign", "handlers_x", `UPDATE a_child_x SET campaign_id = 'c12', number = 99
			WHERE campaign_id = 'c11' AND number = 4`, []string{"extra a_child_x c12", "missing a_child_x c11"}},
	}
	for _, tt := range tests {
		exec(t, pool, tt.change)
		report, found := verified(t, p, lookback.VerifyRequest{Projection: tt.projection, All: true})
		for _, want := range tt.want {
			if !slices.Contains(found, want) {
				t.Errorf("%s: found %q, want %q among them", tt.name, found, tt.want)
			}
		}
		if report.Differences() != int64(len(found)) {
			t.Errorf("%s: %d differences are counted, %d were told", tt.name, report.Differences(), len(found))
		}
	}
	// A sample finds only differences in its own campaigns and columns.
	if _, found := verified(t, p, lookback.VerifyRequest{
		Projection: "handlers_x",
		Campaigns:  []string{"c01", "c09"},
	}); !slices.Equal(found, []string{"different a_child_x c09 seq"}) {
		t.Errorf("of two campaigns: %q", found)
	}
	if report, found := verified(t, p, lookback.VerifyRequest{
		Projection: "handlers_x",
		Sample:     100,
	}); report.Campaigns != 20 || len(found) != 4 || report.Differing != 4 {
		t.Errorf("of a sample of all: %+v, %q", report, found)
	}
	if report, _ := verified(t, p, lookback.VerifyRequest{Projection: "handlers_x", Sample: 6}); report.Campaigns != 6 {
		t.Errorf("of a sample of 6: %+v", report)
	}
	if _, found := verified(t, p, lookback.VerifyRequest{
		Projection: "handlers_x", Campaigns: []string{"c09"},
		Ignore: []string{"a_child_x.seq"},
	}); len(found) > 0 {
		t.Errorf("a column to ignore was compared: %q", found)
	}
	// A replay from scratch repairs the rows.
	if _, err := replayFrom(t.Context(), pool, failed.ReplayRequest{
		Group: "default", Projection: "handlers_x",
		Campaigns: []string{"c05", "c09", "c11", "c12"},
	}); err != nil {
		t.Fatal(err)
	}
	if report, found := verified(t, p, lookback.VerifyRequest{
		Projection: "handlers_x",
		All:        true,
	}); report.Skipped != 4 || report.Campaigns != 16 || len(found) > 0 {
		t.Errorf("campaigns on their way are no differences: %+v, %q", report, found)
	}
	drain(t, p)
	if report, found := verified(t, p, lookback.VerifyRequest{
		Projection: "handlers_x",
		All:        true,
	}); report.Campaigns != 20 || len(found) > 0 {
		t.Errorf("after the repair: %+v, %q", report, found)
	}
}

func TestVerifyWhileLiveWorkGoesOnFindsNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := newProjector(t, pool, kinds(t, "x")...)
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others errgroup.Group
	others.Go(func() error { return p.Run(ctx) })
	others.Go(func() error {
		for i := 0; ctx.Err() == nil; i++ {
			payload := fmt.Appendf(nil, `{"by": %d}`, i%8)
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.Append(ctx, tx, fmt.Sprintf("c%d", i%5), journal.Any,
					event.Event{Type: "moved", Payload: payload})
				return err
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	events := int64(0)
	for round := 0; round < 4 || events < 100; round++ {
		events = 0
		for _, name := range []string{"document_x", "handlers_x", "file_x"} {
			report, found := verified(t, p, lookback.VerifyRequest{Projection: name, All: true, Concurrency: 1})
			if len(found) > 0 || report.Failed > 0 {
				t.Fatalf("%s: %+v, %q", name, report, found)
			}
			events += report.Events
		}
	}
	stop()
	if err := others.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log`); n > 0 {
		t.Errorf("verifying made %d failures", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tidemark_check%'`); n > 0 {
		t.Errorf("%d schemas are left", n)
	}
}

// fragile fails on the events for which refuse returns true.
func fragile(refuse func(event.Event) bool) projection.Projection {
	return projection.Handlers{
		Name: "fragile", Version: 1, Tables: `CREATE TABLE fragile (campaign_id text, seq bigint,
			PRIMARY KEY (campaign_id, seq))`,
		OnFailure: projection.Policy{Action: projection.ActionDead},
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, _ moved) error {
				if refuse(e) {
					return errors.New("no")
				}
				g.Queue(`INSERT INTO fragile VALUES ($1, $2)`, e.CampaignID, e.Seq)
				return nil
			}),
		},
	}
}

func TestVerifyKnowsWhereAPairStands(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	third := func(e event.Event) bool { return e.CampaignID == "a" && e.Seq == 3 }
	broken, mended := newProjector(t, pool, fragile(third)),
		newProjector(t, pool, fragile(func(event.Event) bool { return false }))
	appendMoves(t, pool, "a", 1, 2, 3, 4)
	appendMoves(t, pool, "b", 1, 2, 3, 4)
	drain(t, broken)
	all := lookback.VerifyRequest{Projection: "fragile", All: true}
	// The campaign stopped before event 3. The rows of events 1 and 2 are correct with either code.
	for _, p := range []*projector.Projector{broken, mended} {
		if report, found := verified(t, p, all); len(found) > 0 || report.Campaigns != 2 || report.Events != 6 {
			t.Errorf("before the event that failed: %+v, %q", report, found)
		}
	}
	// An operator skips the event. Verify skips it too, whether or not it could be applied by now.
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return failed.Resolve(t.Context(), tx, failed.Key{Projection: "fragile", CampaignID: "a"}, 3,
			failed.Act{By: "ada", Reason: "known"})
	})
	if err != nil {
		t.Fatal(err)
	}
	drain(t, broken)
	for _, p := range []*projector.Projector{broken, mended} {
		if report, found := verified(t, p, all); len(found) > 0 || report.Campaigns != 2 {
			t.Errorf("with an event that was skipped: %+v, %q", report, found)
		}
	}
	// This code could not have written the rows.
	other := newProjector(t, pool, fragile(func(e event.Event) bool { return e.CampaignID == "b" && e.Seq == 2 }))
	if report, found := verified(t, other, all); report.Failed != 1 || !slices.Equal(found, []string{"failed  b"}) {
		t.Errorf("with an event that cannot be applied: %+v, %q", report, found)
	}
}

func TestVerifyLeavesLiveWorkAsItWas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("types_of_its_own_stay_apart", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		h := &projection.Handlers{
			Name: "moods", Version: 1, Tables: `
			CREATE TYPE mood AS ENUM ('low', 'high');
			CREATE UNLOGGED TABLE moods (id bigserial PRIMARY KEY, campaign_id text, mood mood NOT NULL, moods mood[])`,
			On: []projection.Handler{
				projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, m moved) error {
					tx, err := g.Tx(ctx)
					if err != nil {
						return err
					}
					mood := map[bool]string{false: "low", true: "high"}[m.By > 2]
					var back string
					return tx.QueryRow(ctx, `INSERT INTO moods (campaign_id, mood) VALUES ($1, $2)
				RETURNING mood`, e.CampaignID, mood).Scan(&back)
				}),
			},
		}
		p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{h}, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			appendMoves(t, pool, "a", 1, 2, 3, i)
			drain(t, p)
			for range 2 {
				if report, found := verified(t, p, lookback.VerifyRequest{Projection: "moods", All: true}); len(found) > 0 ||
					report.Tables[0].Rows != int64(4*i+4) {
					t.Fatalf("%+v, %q", report, found)
				}
			}
		}
		exec(t, pool, `UPDATE moods SET mood = 'low' WHERE id = (SELECT max(id) FROM moods WHERE mood = 'high')`)
		if report, _ := verified(t, p, lookback.VerifyRequest{
			Projection: "moods",
			All:        true,
		}); report.Tables[0].Missing != 1 || report.Tables[0].Extra != 1 {
			t.Errorf("without a key of its own: %+v", report)
		}
	})
	t.Run("a_table_named_with_its_schema_is_not_written", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		h := &projection.Handlers{
			Name: "stubborn", Version: 1, Tables: `CREATE TABLE stubborn
			(campaign_id text, seq bigint)`,
			On: []projection.Handler{
				projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, _ moved) error {
					g.Queue(`INSERT INTO tidemark_views.stubborn VALUES ($1, $2)`, e.CampaignID, e.Seq)
					return nil
				}),
			},
		}
		p := newProjector(t, pool, h)
		appendMoves(t, pool, "a", 1, 2, 3)
		drain(t, p)
		_, err := p.Verify(ctx, lookback.VerifyRequest{Projection: "stubborn", All: true})
		if !errors.Is(err, replay.ErrTouched) || !strings.Contains(err.Error(), "tidemark_views.stubborn") {
			t.Errorf("Verify = %v", err)
		}
		if n := query[int](t, pool, `SELECT count(*) FROM stubborn`); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
	t.Run("rows_of_no_campaign_cannot_be_verified", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		h := &projection.Handlers{
			Name: "total", Version: 1, Tables: `CREATE TABLE total (n bigint, campaign_id boolean)`,
			On: []projection.Handler{
				projection.Handle("moved", func(_ context.Context, g *projection.Group, _ event.Event, _ moved) error {
					g.Queue(`INSERT INTO total VALUES (1)`)
					return nil
				}),
			},
		}
		p := newProjector(t, pool, h)
		drain(t, p)
		if _, err := p.Verify(ctx, lookback.VerifyRequest{Projection: "total", All: true}); !errors.Is(err,
			replay.ErrNotVerifiable) {
			t.Errorf("Verify = %v", err)
		}
		for _, r := range []lookback.VerifyRequest{
			{Projection: "total"},
			{Projection: "nobody", All: true},
			{Projection: "total", All: true, Sample: 1},
		} {
			if _, err := p.Verify(ctx, r); err == nil {
				t.Errorf("%+v is taken", r)
			}
		}
	})
}

// TestVerifyWritesTheRowsOfALongCampaignAnew uses more than 4,000 events: after so many, Verify
// writes a campaign's rows anew.
func TestVerifyWritesTheRowsOfALongCampaignAnew(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := newProjector(t, pool, kinds(t, "x")...)
	const events = 4500
	exec(t, pool, `SELECT tidemark.append('long', (SELECT jsonb_agg(jsonb_build_object('type', 'moved', 'payload',
		jsonb_build_object('by', n % 5))) FROM generate_series(1, 500) n)) FROM generate_series(1, $1::int / 500)`, events)
	drain(t, p)
	for _, name := range []string{"document_x", "handlers_x", "file_x"} {
		report, found := verified(t, p, lookback.VerifyRequest{Projection: name, Campaigns: []string{"long"}})
		if len(found) > 0 || report.Events != events {
			t.Errorf("%s: %+v, %q", name, report, found)
		}
	}
}
