package sqltest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// archives inserts objects with the positions n000 to n500 for each n, the last tenth of them restored.
const archives = `INSERT INTO tidemark.archives (object, sha256, bytes, campaigns, events, removed, removed_hash,
		first_position, last_position, last_recorded, event_types, members, actor, reason, lane, changed_at)
	SELECT 'o' || n, sha256(''), 1, (n <= 0.9 * %[1]d)::int, 1, 1, 1, n * 1000, n * 1000 + 500, now(), '{noted}', '{}',
		'a', 'r', n %% 8, now() - n * interval '1 s'
	FROM generate_series(1, %[1]d) AS n`

// TestTheMarkOfArchivesCostsTheSameHoweverManyThereAre asks before, between and behind archives.
func TestTheMarkOfArchivesCostsTheSameHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	scan := func(sql string) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			var got string
			err := tx.QueryRow(t.Context(), sql).Scan(&got)
			if err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
			return nil
		}
	}
	calls := func(all int) map[string]func(pgx.Tx) error {
		calls := map[string]func(pgx.Tx) error{
			"greatest position": scan("SELECT tidemark.greatest_position(false)::text"),
		}
		for place, after := range map[string]int{
			"before": 0, "between": 50_500, "within": 50_000, "restored": all * 950, "behind": all * 2000,
		} {
			calls["mark "+place] = scan(fmt.Sprintf("SELECT tidemark.archive_mark(%d, %[1]d + 400)::text", after))
			if place != "within" { // an archive is in the way
				calls["require "+place] = scan(fmt.Sprintf("SELECT tidemark.require_positions(%d, %[1]d + 400)::text", after))
			}
		}
		return calls
	}
	filled := func(all int, before bool) *session {
		s := open(t, pgtest.URL(t))
		if before {
			for range 7 { // after five runs Postgres may keep a generic plan
				for _, call := range calls(all) {
					s.explain(t, call)
				}
			}
		}
		exec := func(statement string) {
			if _, err := s.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		exec("ALTER TABLE tidemark.archives SET (autovacuum_enabled = false)")
		exec(fmt.Sprintf(archives, all))
		if !before {
			exec("VACUUM ANALYZE tidemark.archives")
		}
		return s
	}
	few, many, old := filled(small, false), filled(large, false), filled(large, true)
	afterMany := calls(large)
	for name, call := range calls(small) {
		few.explain(t, call) // fills the session's caches
		base := few.explain(t, call)
		call = afterMany[name]
		for state, s := range map[string]*session{"large": many, "grown since it was planned": old} {
			c := s.settled(t, call)
			t.Logf("%-20s %-28s %4d blocks, %3.0f rows, where there is little %d and %.0f", name, state, c.Blocks, c.Rows,
				base.Blocks, base.Rows)
			if c.Rows > base.Rows+1 || c.Blocks > 2*base.Blocks+10 {
				t.Errorf("%s, %s: %d blocks and %.0f rows, where there is little %d and %.0f", name, state, c.Blocks, c.Rows,
					base.Blocks, base.Rows)
			}
		}
	}
}
