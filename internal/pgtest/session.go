package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
)

// Session is a way in which the sessions of our programs may differ from those of most tests.
type Session struct {
	Name     string
	mode     string   // pgx's default_query_exec_mode
	defaults []string // settings of the database
}

// Sessions are those that programs must work in: pgx's modes, of which a pooler needs some, and
// stricter isolation as the database's default.
func Sessions() []Session {
	var all []Session
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		all = append(all, Session{Name: mode, mode: mode})
	}
	for _, level := range []string{"repeatable read", "serializable"} {
		all = append(all, Session{Name: level, mode: "cache_statement", defaults: []string{
			"default_transaction_isolation = '" + level + "'", "default_transaction_deferrable = on",
		}})
	}
	return all
}

// Open answers a pool as our programs open it, on the database at url, which is the test's own.
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
	return open(t, With(url, "default_query_exec_mode", s.mode), session.Prepare)
}
