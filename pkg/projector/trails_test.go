package projector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

// trailNames returns the names of the projections of trails.
func trailNames() []string { return []string{"trail_document", "trail_file", "trail_handlers"} }

// trails returns projections that keep each applied event, multiplied by their version. Applying an
// event twice changes nothing. A broken one fails on a move by 13.
func trails(t *testing.T, version int, broken bool) []projection.Projection {
	t.Helper()
	dead := projection.Policy{Action: projection.ActionDead}
	refuses := func(m moved) error {
		if broken && m.By == 13 {
			return errors.New("unlucky")
		}
		return nil
	}
	document := projection.Document[map[string]int]{
		Name: "trail_document", Version: version, Types: []string{"moved"}, OnFailure: dead,
		Key: func(e event.Event) (string, error) { return fmt.Sprint(e.Seq), nil },
		Fold: func(d *map[string]int, e event.Event) error {
			m, err := event.Decode[moved](e)
			*d = map[string]int{"by": version * m.By}
			return errors.Join(err, refuses(m))
		},
	}
	handlers := &projection.Handlers{
		Name: "trail_handlers", Version: version, OnFailure: dead, Tables: `CREATE TABLE trail_handlers (campaign_id text,
			seq bigint, by bigint, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				g.Queue(`INSERT INTO trail_handlers VALUES ($1, $2, $3)
			ON CONFLICT (campaign_id, seq) DO NOTHING`, e.CampaignID, e.Seq, version*m.By)
				return refuses(m)
			}),
		},
	}
	unlucky := 0
	if broken {
		unlucky = 13
	}
	file, err := sqlfile.Load(fstest.MapFS{"x.sql": {Data: fmt.Appendf(nil, `-- projection: trail_file
-- version: %[1]d
-- on failure: dead
CREATE TABLE trail_file (campaign_id text, seq bigint, by bigint, PRIMARY KEY (campaign_id, seq));
-- on: moved
INSERT INTO trail_file SELECT event.campaign_id, event.seq, %[1]d * (event.payload->>'by')::bigint
	WHERE 1 / ((event.payload->>'by')::bigint - %[2]d) IS NOT NULL
ON CONFLICT (campaign_id, seq) DO NOTHING;
`, version, unlucky)}}, "x.sql")
	if err != nil {
		t.Fatal(err)
	}
	return []projection.Projection{document, file, handlers}
}

// expectTrails checks the events of campaign a in a set of the trails' tables.
func expectTrails(t *testing.T, pool *pgxpool.Pool, when, set, want string) {
	t.Helper()
	for _, name := range trailNames() {
		schema := query[string](t, pool, `SELECT coalesce((SELECT schema_name FROM tidemark.projections WHERE name = $1),
			'none')`, name+set)
		by, order := "by::text", "seq"
		if name == "trail_document" {
			by, order = "doc->>'by'", "key::bigint"
		}
		table := pgx.Identifier{schema, name}.Sanitize()
		got := query[string](t, pool, fmt.Sprintf(`SELECT coalesce(string_agg(%s, ' ' ORDER BY %s), '') FROM %s
			WHERE campaign_id = 'a'`, by, order, table))
		if got != want {
			t.Errorf("%s, %s%s has %q, want %q", when, name, set, got, want)
		}
	}
}

func resolveTrails(t *testing.T, pool *pgxpool.Pool, set string) {
	t.Helper()
	for _, name := range trailNames() {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return failed.Resolve(t.Context(), tx, failed.Key{Projection: name + set, CampaignID: "a"}, 3,
				failed.Act{By: "ada", Reason: "a test's"})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unresolveTrails(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, name := range trailNames() {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return failed.Unresolve(t.Context(), tx, failed.Key{Projection: name, CampaignID: "a"}, 3,
				failed.Act{By: "ada", Reason: "it counts"})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func rebuildTrails(t *testing.T, pool *pgxpool.Pool, p *projector.Projector, o rebuild.Options) {
	t.Helper()
	for _, name := range trailNames() {
		if _, err := rebuild.StartRebuild(t.Context(), pool, name, o, ada); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "the trails are rebuilt", func() bool {
		drain(t, p)
		return query[int](t, pool, `SELECT count(*) FROM tidemark.rebuilds`) == 0
	})
}
