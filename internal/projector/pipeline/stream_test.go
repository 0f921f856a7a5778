package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// streaming returns a streaming pipeline in a transaction with a table t (n int PRIMARY KEY, note
// text).
func streaming(t *testing.T) (*Pipeline, *[]string) {
	t.Helper()
	config, err := pgx.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	p := NewPipeline(conn)
	p.Streams, p.Notice = true, config.OnNotice
	for _, sql := range []string{"CREATE TABLE t (n int PRIMARY KEY, note text)", "BEGIN", QueryPatienceBegins} {
		if err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return p, &notices
}

// part returns a savepoint with n statements. args returns the arguments of each.
func part(n int, sql string, args func(i int) []any) *Savepoint {
	s := &Savepoint{}
	for i := range n {
		s.Queries = append(s.Queries, &pgx.QueuedQuery{SQL: sql, Arguments: args(i)})
	}
	return s
}

// many is a number of statements that takes several flushes.
const many = 2 * streamFlush

func TestAStream(t *testing.T) {
	t.Parallel()

	t.Run("keeps the parts that go through, and names the statement that fails of each other", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		inserts := func(base int, change func(i int, args []any)) *Savepoint {
			return part(many, "INSERT INTO t VALUES ($1, $2)", func(i int) []any {
				args := []any{base + i, "x"}
				if change != nil {
					change(i, args)
				}
				return args
			})
		}
		parts := []*Savepoint{
			inserts(0, nil),
			inserts(many, func(i int, args []any) {
				if i == 300 {
					args[0] = 7 // exists already
				}
			}),
			inserts(2*many, func(i int, args []any) {
				if i == 41 {
					args[0] = struct{}{} // cannot be sent
				}
			}),
			inserts(3*many, func(i int, args []any) {
				switch i {
				case 100:
					args[0] = 7
				case 300:
					args[0] = struct{}{}
				}
			}),
			part(1, "INSERT INTO nowhere VALUES ($1)", func(int) []any { return []any{1} }),
			inserts(4*many, nil),
		}
		if err := p.StreamParts(t.Context(), parts, false); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{-1, 300, 41, 100, 0, -1} {
			if one := parts[i]; (one.Cause != nil) != (want >= 0) || want > 0 && one.Failed != want {
				t.Errorf("part %d failed at %d: %v, want %d", i, one.Failed, one.Cause, want)
			}
		}
		var rows int
		if err := p.Conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != 2*many {
			t.Errorf("%d rows (%v), want %d", rows, err, 2*many)
		}
	})

	for name, fault := range map[string]any{"a failure": 7, "an argument that cannot be sent": struct{}{}} {
		t.Run("in order runs nothing after "+name, func(t *testing.T) {
			t.Parallel()
			p, _ := streaming(t)
			inserts := func(base, fails int) *Savepoint {
				return part(many, "INSERT INTO t VALUES ($1, 'x')", func(i int) []any {
					if i == fails {
						return []any{fault}
					}
					return []any{base + i}
				})
			}
			parts := []*Savepoint{inserts(0, -1), inserts(many, 300), inserts(2*many, 100), inserts(3*many, -1)}
			if err := p.StreamParts(t.Context(), parts, true); err != nil {
				t.Fatal(err)
			}
			for i, one := range parts {
				if (one.Cause != nil) != (i == 1) || i == 1 && one.Failed != 300 {
					t.Errorf("part %d failed at %d: %v", i, one.Failed, one.Cause)
				}
			}
			var rows int
			if err := p.Conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != many {
				t.Errorf("%d rows (%v), want %d", rows, err, many)
			}
		})
	}

	t.Run("ends with its context and closes the connection", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		ctx, cancel := context.WithCancel(t.Context())
		watcher, err := pgx.ConnectConfig(t.Context(), p.Conn.Config())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = watcher.Close(context.WithoutCancel(t.Context())) }()
		go func() {
			defer cancel()
			for sleeps := false; !sleeps; {
				const asleep = "SELECT wait_event IS NOT DISTINCT FROM 'PgSleep' FROM pg_stat_activity WHERE pid = $1"
				if err := watcher.QueryRow(ctx, asleep, p.Conn.PgConn().PID()).Scan(&sleeps); err != nil {
					return
				}
			}
		}()
		sleeping := part(1, "SELECT pg_sleep(60)", func(int) []any { return nil })
		if err := p.StreamParts(ctx, []*Savepoint{sleeping}, false); !errors.Is(err, context.Canceled) || !p.Conn.IsClosed() {
			t.Fatalf("error %v, closed %t: want the context's, and a closed connection", err, p.Conn.IsClosed())
		}
	})

	t.Run("hands notices on", func(t *testing.T) {
		t.Parallel()
		p, notices := streaming(t)
		noisy := part(many, "DROP TABLE IF EXISTS nowhere", func(int) []any { return nil })
		if err := p.StreamParts(t.Context(), []*Savepoint{noisy}, false); err != nil {
			t.Fatal(err)
		}
		if len(*notices) != many {
			t.Errorf("%d notices, want %d", len(*notices), many)
		}
	})
}
