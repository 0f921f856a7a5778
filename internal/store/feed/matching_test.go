package feed_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
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
	for name, q := range map[string]event.Query{
		"a type":   event.Types("rare"),
		"two tags": event.Tagged([]string{"a", "b"}),
	} {
		events, err := feed.Read(t.Context(), pool, q, 0, 10)
		if err != nil || len(events) != 1 || events[0].Type != "rare" {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
		listed, _, more, err := feed.ListMatches(t.Context(), pool, q, 0, feed.List{Events: 10, Bytes: math.MaxInt64})
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
	m := feed.Matching{Query: event.Types("noted"), Floor: 1<<47 + 3}
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

// spans is a Querier that notes how many positions each statement looks at.
type spans struct {
	event.Querier
	most []int64
}

func (s *spans) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if len(args) == 4 {
		s.most = append(s.most, args[2].(int64)-args[1].(int64))
	}
	return s.Querier.Query(ctx, sql, args...)
}

// TestDecisionsOnRareEventsAreReadInShortStatements decides over a long journal, with a short time limit and in a
// transaction.
func TestDecisionsOnRareEventsAreReadInShortStatements(t *testing.T) {
	t.Parallel()
	filled := rareAtTheEnd(t)
	cfg := filled.Config().Copy()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "100ms"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	count := func(n *int, _ event.Event) error { *n++; return nil }
	decide := func(db event.Querier, name string, q event.Query, want int) journal.Condition {
		t.Helper()
		n, condition, err := journal.Decide(t.Context(), db, q, count)
		if err != nil || n != want || condition.After != manyEvents {
			t.Errorf("%s: %d events, after %d, %v; want %d", name, n, condition.After, err, want)
		}
		return condition
	}
	decide(pool, "two tags", event.Tagged([]string{"a", "b"}), 1)
	decide(pool, "a type", event.Types("rare"), 1)
	decide(filled, "many", event.Types("rare", "common"), manyEvents)
	tx, err := filled.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	noted := &spans{Querier: tx}
	condition := decide(noted, "in a transaction", event.Types("rare"), 1)
	if n := len(noted.most); n < 3 || noted.most[0] != feed.FirstSpan || noted.most[1] != feed.FirstSpan {
		t.Errorf("the statements look at %d positions", noted.most)
	}
	if _, err := (journal.Journal{}).AppendIf(t.Context(), tx, []event.Event{{CampaignID: "x", Type: "rare"}}, condition); err != nil {
		t.Error(err)
	}
	if _, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 1`); err != nil {
		t.Fatal(err)
	}
	_, err = journal.Journal{}.AppendIf(t.Context(), tx, []event.Event{{CampaignID: "x", Type: "rare"}}, journal.Condition{
		FailIfMatch: event.Types("lost"),
	})
	if err == nil || !strings.Contains(err.Error(), "reads the journal after position 0: decide again just before") {
		t.Errorf("a condition on the whole journal: %v", err)
	}
}

// TestAPageOfRareEventsEndsWhereItHasGotTo has time for one window a page.
func TestAPageOfRareEventsEndsWhereItHasGotTo(t *testing.T) {
	t.Parallel()
	pool := rareAtTheEnd(t)
	var found []event.Event
	pages, from := 0, int64(0)
	for more := true; more; pages++ {
		var events []event.Event
		var until int64
		var err error
		l := feed.List{Events: 10, Bytes: math.MaxInt64, Time: 1}
		if events, until, more, err = feed.ListMatches(t.Context(), pool, event.Types("rare"), from, l); err != nil {
			t.Fatal(err)
		}
		if until < from || pages > 100 {
			t.Fatalf("page %d from %d ends at %d", pages, from, until)
		}
		found, from = append(found, events...), until+1
	}
	if len(found) != 1 || pages < 3 {
		t.Errorf("%d events on %d pages", len(found), pages)
	}
}
