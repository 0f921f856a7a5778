package projector_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"golang.org/x/sync/errgroup"
)

// odd keeps a row of types that are lost where values are not kept as they are written, in a table
// that computes, orders and watches its rows.
func odd(tables string) projector.Projection {
	h := projector.NewHandlers(projector.Spec{Name: "odd", Version: 1, Tables: `CREATE TYPE pair AS (a text, b bytea);
		CREATE TABLE odd (campaign_id text PRIMARY KEY, sum float8 NOT NULL,
			twice float8 GENERATED ALWAYS AS (sum * 2) STORED, raw json, several pair[], since tstzrange, nothing text,
			"quoted ""name" text DEFAULT 'x');
		CREATE FUNCTION count_odd() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.sum := NEW.sum + 1000; RETURN NEW; END$$;
		CREATE TRIGGER counted BEFORE INSERT ON odd FOR EACH ROW EXECUTE FUNCTION count_odd();` + tables})
	projector.On(h, "moved", func(_ context.Context, g *projector.Group, e journal.Event, m moved) error {
		g.Queue(`INSERT INTO odd AS o (campaign_id, sum, raw, several, since, "quoted ""name")
			VALUES ($1, $2, '{"a":  1, "a": 2}', ARRAY[ROW('x,"y\', '\x00ff')::pair], '[2020-01-01,)', '')
			ON CONFLICT (campaign_id)
			DO UPDATE SET sum = CASE $2 WHEN 9 THEN 'NaN' ELSE o.sum + $2 END`, e.CampaignID, float64(m.By))
		return nil
	})
	return h
}

func look(t *testing.T, p *projector.Projector, seq int64) string {
	t.Helper()
	state, err := p.AsOf(t.Context(), "odd", "a", seq)
	if err != nil {
		t.Fatal(err)
	}
	return string(state.Tables[0].Rows[0])
}

func TestLookingBackBeginsAtTheLatestSnapshot(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(every int64, projection projector.Projection) *projector.Projector {
		p, err := projector.New(projector.Config{
			Pool: pool, Projections: []projector.Projection{projection},
			SnapshotEvery: every,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain, kept := worker(0, odd("")), worker(3, odd(""))
	appendMoves(t, pool, "a", 1, 2, 3, 4, 9, 6, 7, 8)
	drain(t, plain)
	var want []string
	for seq := range int64(8) {
		want = append(want, look(t, plain, seq+1))
	}
	for _, seq := range []int64{8, 3, 4, 6, 7, 2, 5, 1} {
		if got := look(t, kept, seq); got != want[seq-1] {
			t.Errorf("after event %d: %s, want %s", seq, got, want[seq-1])
		}
	}
	expectText(t, pool, "snapshots", "3 6", `SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM tidemark.snapshots`)

	// That they are used shows where they are wrong; of tables that are made otherwise they are not.
	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.snapshots SET rows = replace(rows::text, '1006', '5')::jsonb
		WHERE seq = 3`); err != nil {
		t.Fatal(err)
	}
	if got := look(t, plain, 4); !strings.Contains(got, `"sum": 9,`) {
		t.Errorf("after event 4 from a false snapshot: %s", got)
	}
	if got := look(t, worker(0, odd(" CREATE INDEX ON odd (sum)")), 4); got != want[3] {
		t.Errorf("after event 4 from no snapshot: %s", got)
	}
	if why, err := plain.Why(t.Context(), projector.WhyRequest{Projection: "odd", CampaignID: "a"}); err != nil ||
		len(why.Causes) == 0 || why.Causes[0].Event.Seq != 1 {
		t.Errorf("why: %v, %v", why, err)
	}
	if _, err := replayFrom(t.Context(), pool, failed.ReplayRequest{
		Group: "default", Projection: "odd",
		Campaigns: []string{"a"},
	}); err != nil {
		t.Fatal(err)
	}
	drain(t, plain)
	expectText(t, pool, "snapshots after a replay", "0", `SELECT count(*)::text FROM tidemark.snapshots`)
	if got := look(t, plain, 4); got != want[3] {
		t.Errorf("after event 4 after a replay: %s", got)
	}
}

// TestSnapshotsOfACampaignAreBounded keeps four: those left stay spread over the campaign, whether
// they are made one after the other or the bound is lowered.
func TestSnapshotsOfACampaignAreBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(keep int) *projector.Projector {
		return workerOf(t, pool, func(c *projector.Config) { c.SnapshotEvery, c.SnapshotKeep = 1, keep }, odd(""))
	}
	appendMoves(t, pool, "a", 1, 2, 3, 4, 9, 6, 7, 8, 1, 2, 3, 4, 9, 6, 7, 8)
	appendMoves(t, pool, "b", 1, 2)
	plain := newProjector(t, pool, odd(""))
	drain(t, plain)
	want := map[int64]string{}
	for _, seq := range []int64{3, 4, 5, 8, 11, 16} {
		want[seq] = look(t, plain, seq)
	}
	const kept = `SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM tidemark.snapshots WHERE campaign_id = 'a'`
	four := worker(4)
	if _, err := four.AsOf(t.Context(), "odd", "b", 2); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		seq  int64
		kept string
	}{{4, "1 2 3 4"}, {5, "2 3 4 5"}, {8, "2 4 6 8"}, {16, "4 9 13 16"}, {11, "4 9 13 16"}, {3, "4 9 13 16"}} {
		if got := look(t, four, at.seq); got != want[at.seq] {
			t.Errorf("after event %d: %s, want %s", at.seq, got, want[at.seq])
		}
		expectText(t, pool, "snapshots", at.kept, kept)
	}
	expectText(t, pool, "snapshots of another campaign", "1 2", `SELECT string_agg(seq::text, ' ' ORDER BY seq)
		FROM tidemark.snapshots WHERE campaign_id = 'b'`)
	exec(t, pool, `DELETE FROM tidemark.snapshots WHERE seq = 16`)
	look(t, worker(2), 16)
	expectText(t, pool, "snapshots once two are allowed", "9 16", kept)
}

// TestAWorkerMakesTheSnapshotsOfLongCampaigns leaves short campaigns, and rows that are numbered, alone.
func TestAWorkerMakesTheSnapshotsOfLongCampaigns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	numbered := projector.NewHandlers(projector.Spec{Name: "numbered", Version: 1, Tables: `CREATE TABLE numbered
		(campaign_id text, n serial PRIMARY KEY)`})
	projector.On(numbered, "moved", func(_ context.Context, g *projector.Group, e journal.Event, _ moved) error {
		g.Queue(`INSERT INTO numbered (campaign_id) VALUES ($1)`, e.CampaignID)
		return nil
	})
	p, err := projector.New(projector.Config{
		Pool: pool, Projections: []projector.Projection{odd(""), numbered},
		SnapshotEvery: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	appendMoves(t, pool, "a", 1, 2, 3, 4, 5)
	appendMoves(t, pool, "b", 1)
	appendMoves(t, pool, "c", 1, 2)
	drain(t, p)
	ctx, stop := context.WithCancel(t.Context())
	var worker errgroup.Group
	worker.Go(func() error { return p.Run(ctx) })
	defer func() {
		if stop(); worker.Wait() != nil {
			t.Error("the worker has failed")
		}
	}()
	within(t, "snapshots are made", func() bool {
		return query[string](t, pool, `SELECT coalesce(string_agg(concat_ws(' ', projection, campaign_id, seq), ', '
			ORDER BY campaign_id, seq), '') FROM tidemark.snapshots`) == "odd a 2, odd a 4, odd c 2"
	})
	if state, err := p.AsOf(t.Context(), "numbered", "a", 4); err != nil || len(state.Tables[0].Rows) != 4 {
		t.Errorf("numbered rows: %v, %v", state, err)
	}
}

// TestSnapshotsAreOfTheirVersion has two versions whose tables are made by the same statements, and
// then one whose rows are made anew.
func TestSnapshotsAreOfTheirVersion(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(version int) *projector.Projector {
		return workerOf(t, pool, func(c *projector.Config) { c.SnapshotEvery = 2 }, tripled(version))
	}
	appendMoves(t, pool, "a", 1, 2, 3, 4, 5)
	one, two := worker(1), worker(2)
	drain(t, one)
	for _, look := range []struct {
		of   *projector.Projector
		seq  int64
		want string
	}{{one, 5, `"sum": 15`}, {two, 5, `"sum": 30`}, {one, 4, `"sum": 10`}, {two, 4, `"sum": 20`}} {
		state, err := look.of.AsOf(t.Context(), "counters", "a", look.seq)
		if err != nil {
			t.Fatal(err)
		}
		if rows := state.Tables[0].Rows; len(rows) != 1 || !strings.Contains(string(rows[0]), look.want) {
			t.Errorf("version %d after event %d: %s, want %s", state.Version, look.seq, rows, look.want)
		}
	}
	expectText(t, pool, "snapshots", "1:2 1:4 2:2 2:4", `SELECT string_agg(version || ':' || seq, ' '
		ORDER BY version, seq) FROM tidemark.snapshots`)
	start(t, pool, rebuild.Options{})
	drain(t, one)
	expectText(t, pool, "snapshots once it is rebuilt", "0", `SELECT count(*)::text FROM tidemark.snapshots`)
}

// TestASnapshotIsNotUsedOnceAnEventBeforeItIsSkipped has an operator skip one that the snapshots have applied.
func TestASnapshotIsNotUsedOnceAnEventBeforeItIsSkipped(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := func(refused int64) *projector.Projector {
		return workerOf(t, pool, func(c *projector.Config) { c.SnapshotEvery = 2 },
			fragile(func(e journal.Event) bool { return e.Seq == refused }))
	}
	appendMoves(t, pool, "a", 1, 2, 3, 4)
	broken, mended := worker(3), worker(0)
	drain(t, broken)
	rows := func(want int) {
		t.Helper()
		state, err := mended.AsOf(t.Context(), "fragile", "a", 4)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(state.Tables[0].Rows); got != want {
			t.Errorf("%d rows, want %d", got, want)
		}
	}
	rows(4)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return failed.Resolve(t.Context(), tx, failed.Key{Projection: "fragile", CampaignID: "a"}, 3, ada)
	})
	if err != nil {
		t.Fatal(err)
	}
	rows(3)
}
