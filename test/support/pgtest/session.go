package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
)

// Session is a way in which sessions of our programs may differ from those of most tests.
type Session struct {
	Name     string
	mode     string   // pgx's default_query_exec_mode
	defaults []string // settings of the database
}

// Sessions returns the sessions in which programs must work: pgx's exec modes, some of which a
// pooler needs. Two of them have a stricter isolation as the database's default. Our sessions set
// their own isolation, so it needs no further combinations: a test of all acts is expensive.
func Sessions() []Session {
	stricter := func(level string) []string {
		return []string{"default_transaction_isolation = '" + level + "'", "default_transaction_deferrable = on"}
	}
	return []Session{
		{Name: "cache_statement", mode: "cache_statement"},
		{Name: "cache_describe, repeatable read", mode: "cache_describe", defaults: stricter("repeatable read")},
		{Name: "describe_exec, serializable", mode: "describe_exec", defaults: stricter("serializable")},
		{Name: "exec", mode: "exec"},
		{Name: "simple_protocol", mode: "simple_protocol"},
	}
}

// Open returns a pool on the test's own database at url, opened as our programs do.
func (s Session) Open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	if len(s.defaults) > 0 {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		name := pgx.Identifier{conn.Config().Database}.Sanitize()
		for _, setting := range s.defaults {
			if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+name+" SET "+setting); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, With(url, "default_query_exec_mode", s.mode), session.Prepare, func(cfg *pgxpool.Config) {
		session.Direct(cfg.ConnConfig)
		delete(cfg.ConnConfig.RuntimeParams, "search_path") // tests read the tables of projections with it
	})
}
