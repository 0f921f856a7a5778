package journal_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// At any depth and through any function, callers get TM004 and never Postgres' own error (54001).
func TestWhatIsTooDeepIsRefusedInOneWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const good, holds = `[{"campaign_id": "c", "events": [{"type": "x"}]}]`,
		`{"failIfEventsMatch": {"items": [{"types": ["never"]}]}}`
	for _, levels := range []int{129, 10_000, 30_000, 100_000} {
		for kind, deep := range map[string]string{"objects": nested(`{"a":`, `1`, `}`, levels), "arrays": `{"a":` +
			nested(`[`, ``, `]`, levels-1) + `}`} {
			events := `[{"type": "x", "payload": ` + deep + `}]`
			batches := `[{"campaign_id": "c", "events": ` + events + `}]`
			for call, try := range map[string]func() error{
				"append": func() error { return calls(t, pool, "tidemark.append('c', $1)", events) },
				"append of a literal": func() error {
					_, err := pool.Exec(t.Context(), "SELECT FROM tidemark.append('c', '"+events+"')", pgx.QueryExecModeSimpleProtocol)
					return err
				},
				"append of metadata": func() error {
					return calls(t, pool, "tidemark.append('c', $1)", `[{"type": "x", "metadata": `+deep+`}]`)
				},
				"append_all":             func() error { return calls(t, pool, "tidemark.append_all($1)", batches) },
				"append_if":              func() error { return calls(t, pool, "tidemark.append_if($1, $2)", batches, holds) },
				"append_if, a condition": func() error { return calls(t, pool, "tidemark.append_if($1, $2)", good, deep) },
				"Append": func() error {
					_, err := appendTo(t.Context(), pool, "c", journal.Any, event.Event{Type: "x", Payload: []byte(deep)})
					if invalid(err) {
						return nil
					}
					return fmt.Errorf("got %.100w", err)
				},
			} {
				if err := try(); sqlState(err) != invalidEvent && (err != nil || call != "Append") {
					t.Errorf("%s of %d %s: %.100v, want %s", call, levels, kind, err, invalidEvent)
				}
			}
		}
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 0 {
		t.Errorf("what was refused wrote %d rows", n)
	}
	for i, call := range []string{
		`append('c', '[{"type": "x"}]')`, `append('c', '[{"type": "x"}]', 1)`,
		`append(p_campaign_id => 'c', p_events => '[{"type": "x"}]')`, `append('c', '[{"type": "x"}]'::jsonb)`,
		`append_all('` + good + `')`, `append_all('` + good + `'::jsonb)`, `append_if('` + good + `', '` + holds + `')`,
		`append_if('` + good + `'::jsonb, '` + holds + `')`,
	} {
		if seq := query[int64](t, pool, "SELECT seq FROM tidemark."+call); seq != int64(i+1) {
			t.Errorf("%s answers seq %d, want %d", call, seq, i+1)
		}
	}
}

// calls calls a database function. The server chooses the types of the parameters.
func calls(t *testing.T, pool *pgxpool.Pool, call string, arguments ...any) error {
	t.Helper()
	_, err := pool.Exec(t.Context(), "SELECT FROM "+call, arguments...)
	return err
}
