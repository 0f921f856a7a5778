package feed_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const manyEvents = 80_000

// rareAtTheEnd returns a journal of events that have a common type and the tag a or b, but for the last,
// which is rare and has both.
func rareAtTheEnd(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		SELECT 'c' || i %% 1000, 1 + i / 1000, nextval('tidemark.journal_position'), md5(i::text)::uuid,
			CASE WHEN i < %[1]d - 1 THEN 'common' ELSE 'rare' END, 1, 'projection_and_replay', '{"a": 1}', 20, now(), now()
		FROM generate_series(0, %[1]d - 1) AS i ORDER BY i;
		INSERT INTO tidemark.event_tags (tag, event_type, position)
		SELECT g.tag, j.event_type, j.position FROM tidemark.journal j CROSS JOIN LATERAL (
			SELECT CASE WHEN j.position %% 2 = 0 THEN 'a' ELSE 'b' END WHERE j.event_type = 'common'
			UNION ALL SELECT unnest('{a,b}'::text[]) WHERE j.event_type = 'rare') AS g (tag);
		ANALYZE tidemark.journal, tidemark.event_tags`, manyEvents), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestRareEventsAreFoundInShortStatements reads from the first event on, with a short time limit.
func TestRareEventsAreFoundInShortStatements(t *testing.T) {
	t.Parallel()
	filled := rareAtTheEnd(t)
	cfg := filled.Config().Copy()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "100ms"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for name, q := range map[string]feed.Query{
		"a type":   feed.Types("rare"),
		"two tags": feed.Tagged([]string{"a", "b"}),
	} {
		events, err := feed.Read(t.Context(), pool, q, 0, 10)
		if err != nil || len(events) != 1 || events[0].Type != "rare" {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
		listed, more, err := feed.ListMatches(t.Context(), pool, q, 0, feed.List{Events: 10, Bytes: math.MaxInt64})
		if err != nil || more || len(listed) != 1 {
			t.Errorf("%s: %d events, more %t, %v", name, len(listed), more, err)
		}
		m := feed.Matching{Query: q, Floor: events[0].Position}
		windows, last := 0, int64(-1)
		for ; !m.Done() && m.After > last; windows++ {
			last = m.After
			if _, err := m.Next(t.Context(), pool, feed.List{Events: 10, Bytes: math.MaxInt64}); err != nil {
				t.Fatal(err)
			}
			if windows == 0 && m.After > manyEvents/4 {
				t.Errorf("%s: the first window ends at %d", name, m.After)
			}
		}
		if !m.Done() || windows < 2 {
			t.Errorf("%s: after %d windows it is at %d", name, windows, m.After)
		}
	}
}

// TestMatchesAreReadOverGapsInFewWindows has a journal whose positions have a wide gap.
func TestMatchesAreReadOverGapsInFewWindows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "a", noted(3)...)
	if _, err := pool.Exec(t.Context(), `SELECT setval('tidemark.journal_position', 1::bigint << 47)`); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, pool, "b", noted(3)...)
	m := feed.Matching{Query: feed.Types("noted"), Floor: 1<<47 + 3}
	var got int
	windows := 0
	for ; !m.Done(); windows++ {
		events, err := m.Next(t.Context(), pool, feed.List{Events: 2, Bytes: math.MaxInt64})
		if err != nil {
			t.Fatal(err)
		}
		got += len(events)
	}
	if got != 6 || windows > 100 {
		t.Errorf("%d events in %d windows", got, windows)
	}
}
