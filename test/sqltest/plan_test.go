package sqltest

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	perCampaign = 10 // events of each campaign
	small       = 100
	large       = 20_000    // campaigns
	group       = 64        // campaigns of one call
	long        = "c000000" // a campaign with as many events as there are campaigns
)

// fill creates campaigns of ten events each. Group g has a backlog of all events, group held has
// leases that no worker claims. In each campaign a failed row is due for retry.
const fill = `
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		VALUES ('p', 'g', 1, 'public', '{p}', 'active');
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'c' || lpad(c::text, 6, '0'), s, nextval('tidemark.journal_position'), md5(c || ' ' || s)::uuid, 'noted', 1,
		'projection_and_replay', '{"a": 1}', 20, now(), now()
	FROM (SELECT c, s FROM generate_series(1, 10) AS s, generate_series(1, %[1]d) AS c UNION ALL SELECT 0, s
		FROM generate_series(1, %[1]d) AS s) AS e;
	INSERT INTO tidemark.event_tags SELECT tag, event_type, position FROM tidemark.journal CROSS
		JOIN LATERAL (VALUES ('all'), ('campaign=' || campaign_id)) AS t (tag);
	INSERT INTO tidemark.outbox SELECT 'g', campaign_id, seq, recorded_at, 1 FROM tidemark.journal;
	INSERT INTO tidemark.leases SELECT 'g', campaign_id, 'w', 1, '-infinity', 0 FROM tidemark.journal WHERE seq = 1;
	INSERT INTO tidemark.leases SELECT 'held', campaign_id, 'w', 1, now() + interval '1 hour', 0 FROM tidemark.journal
		WHERE seq = 1;
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
		next_attempt_at)
	SELECT campaign_id, 'p', 'g', 1, 'failed', 1, now() - interval '1 minute' FROM tidemark.journal WHERE seq = 1;
	INSERT INTO tidemark.scheduled (campaign_id, due_at, attempt_at, events)
	SELECT campaign_id, at, at, '[{"type": "noted", "id": "018c5f3e-0000-7000-8000-000000000001"}]' FROM (
		SELECT campaign_id, now() + CASE seq WHEN 1 THEN interval '-1 min' ELSE interval '1 h' END AS at
		FROM tidemark.journal WHERE seq <= 10) AS j;
	INSERT INTO tidemark.readers (topic, publisher, position) SELECT 't', campaign_id, 0 FROM tidemark.journal
		WHERE seq = 1;
	INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, next_attempt_at)
	SELECT 't', 'p', campaign_id, 1, true, 1, 'retrying', now() - interval '1 minute' FROM tidemark.journal WHERE seq = 1;`

// notes is a projection in an SQL file.
const notes = `-- projection: notes
-- version: 1
CREATE TABLE notes (campaign_id text COLLATE "C" PRIMARY KEY, n bigint NOT NULL);
-- on: noted
INSERT INTO notes AS n (campaign_id, n) VALUES (event.campaign_id, (event.payload->>'a')::int)
	ON CONFLICT (campaign_id) DO UPDATE SET n = n.n + excluded.n;
`

// register creates the projection's function in a database without events.
func register(t *testing.T, url string) string {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	file, err := sqlfile.Load(fstest.MapFS{"notes.sql": {Data: []byte(notes)}}, "notes.sql")
	if err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{file}})
	if err == nil {
		err = p.Register(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// filled returns a session on a database with the given number of campaigns, vacuumed and analyzed.
func filled(t *testing.T, all int) *session {
	t.Helper()
	s := open(t, register(t, pgtest.URL(t)))
	for _, statement := range []string{fmt.Sprintf(fill, all), "VACUUM ANALYZE"} {
		if _, err := s.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// grown returns a session whose plans date from an empty database, without statistics.
func grown(t *testing.T, hot map[string]call, all int) *session {
	t.Helper()
	s := open(t, register(t, pgtest.URL(t)))
	for _, table := range []string{"journal", "event_tags", "outbox", "leases", "failed", "readers", "parked", "scheduled"} {
		if _, err := s.Exec(t.Context(), "ALTER TABLE tidemark."+table+" SET (autovacuum_enabled = false)"); err != nil {
			t.Fatal(err)
		}
	}
	for range 7 { // after five runs Postgres may keep a generic plan
		for _, call := range hot {
			tx, err := s.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = call(t, tx, all) // finds nothing
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Exec(t.Context(), fmt.Sprintf(fill, all)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHotStatementsCostTheSameHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	hot := calls(t)
	few, many, old := filled(t, small), filled(t, large), grown(t, hot, large)
	for name, call := range hot {
		measure := func(s *session, all int) cost {
			run := func(tx pgx.Tx) error {
				if err := call(t, tx, all); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			}
			return s.settled(t, run)
		}
		base := measure(few, small)
		for state, c := range map[string]cost{
			"small": base, "large": measure(many, large),
			"grown since it was planned": measure(old, large),
		} {
			t.Logf("%-28s %-28s %5d blocks, %5.0f rows", name, state, c.Blocks, c.Rows)
			if faults := c.faults(); len(faults) > 0 && state != "small" { // a scan of one page is right there
				t.Errorf("%s, %s: %v", name, state, faults)
			}
			// An index that has grown by a level costs each probe one more block, with at most one
			// probe for each row.
			if c.Blocks > 2*base.Blocks+int(base.Rows) {
				t.Errorf("%s, %s: %d blocks, where there is little %d", name, state, c.Blocks, base.Blocks)
			}
			most := 2 * base.Rows
			if name == "read a query" {
				most *= 2 // it reads windows of positions, each four times as large as the one before
			}
			if c.Rows > most {
				t.Errorf("%s, %s: %.0f rows, where there is little %.0f", name, state, c.Rows, base.Rows)
			}
		}
	}
}

// TestClaimsGoOnBeyondWhatIsDone claims after a burst, before any vacuum: completed rows are still
// in the index, before the pending ones. A claim from the beginning pays for them once, or as long
// as an old transaction keeps them visible. Claims that continue from the cursor do not.
func TestClaimsGoOnBeyondWhatIsDone(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t))
	exec := func(statement string) {
		if _, err := s.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	k := lease.Keeper{Group: "g", Owner: "w", TTL: time.Minute}
	claim := func(cursor string) (c cost, next string) {
		c = s.explain(t, func(tx pgx.Tx) error {
			claimed, err := k.Claim(t.Context(), tx, cursor, group, 0)
			next = claimed.Cursor
			return enough(err, len(claimed.Leases), group)
		})
		return c, next
	}
	exec("ALTER TABLE tidemark.outbox SET (autovacuum_enabled = false)")
	exec(fmt.Sprintf(fill, 10*small))
	_, next := claim(long)
	before, _ := claim(next)
	exec("INSERT INTO tidemark.outbox SELECT 'g', 'a' || c, s, now(), 1 FROM generate_series(1, 10000) AS c, " +
		"generate_series(1, 10) AS s")
	exec("DELETE FROM tidemark.outbox WHERE campaign_id < 'c'")
	first, _ := claim("")
	again, _ := claim("")
	after, _ := claim(next)
	t.Logf("from the start: %d blocks, then %d; from the cursor: %d, before the burst %d", first.Blocks, again.Blocks,
		after.Blocks, before.Blocks)
	if after.Blocks > 2*before.Blocks {
		t.Errorf("from the cursor on a claim touches %d blocks, before the burst %d", after.Blocks, before.Blocks)
	}
}
