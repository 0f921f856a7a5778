package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// streaming answers a pipeline that streams, in a transaction with a table t (n int PRIMARY KEY, note text).
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
	for _, sql := range []string{"CREATE TABLE t (n int PRIMARY KEY, note text)", "BEGIN"} {
		if err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return p, &notices
}

// queueMany queues n statements of a projection, of event i the i-th.
func queueMany(p *Pipeline, n int, sql string, args func(i int) []any) {
	for i := range n {
		p.At = Origin{Projection: "p", CampaignID: "c", Seq: int64(i) + 1, EventType: "e"}
		p.Queue(sql, args(i)...)
	}
	p.At = Origin{}
}

const insertT = "INSERT INTO t VALUES ($1, $2)"

func TestAStream(t *testing.T) {
	t.Parallel()

	t.Run("does what a batch does, in order, among what is read", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		before, after := -1, -1
		count := "SELECT count(*) FROM t"
		p.Queue(count).QueryRow(func(row pgx.Row) error { return row.Scan(&before) })
		queueMany(p, 2*streamFrom, insertT, func(i int) []any { return []any{i, "x"} })
		p.Queue(count).QueryRow(func(row pgx.Row) error { return row.Scan(&after) })
		queueMany(p, streamFrom, "UPDATE t SET note = $2 WHERE n = $1 RETURNING note", func(i int) []any {
			return []any{i, nil}
		})
		p.Queue("COMMIT")
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var noted int
		if err := p.Conn.QueryRow(t.Context(), "SELECT count(note) FROM t").Scan(&noted); err != nil {
			t.Fatal(err)
		}
		if before != 0 || after != 2*streamFrom || noted != streamFrom || p.Conn.PgConn().TxStatus() != 'I' {
			t.Errorf("before %d, after %d rows, %d with a note, transaction status %c: want 0, %d, %d, I", before, after, noted,
				p.Conn.PgConn().TxStatus(), 2*streamFrom, streamFrom)
		}
	})

	t.Run("names the event whose statement fails, and leaves the connection usable", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		if err := p.Exec(t.Context(), "SAVEPOINT s"); err != nil {
			t.Fatal(err)
		}
		culprit := streamFrom + 41
		queueMany(p, 2*streamFrom, insertT, func(i int) []any {
			if i == culprit {
				return []any{7, "again"}
			}
			return []any{i, "x"}
		})
		err := p.Flush(t.Context())
		var apply *failure.ApplyError
		var pgErr *pgconn.PgError
		if !errors.As(err, &apply) || apply.Seq != int64(culprit)+1 || !errors.As(err, &pgErr) || pgErr.Code != "23505" {
			t.Fatalf("error %v: want 23505 at event %d", err, culprit+1)
		}
		if err := p.Exec(t.Context(), "ROLLBACK TO SAVEPOINT s"); err != nil {
			t.Fatal(err)
		}
		if err := p.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("names the event whose argument cannot be sent", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		queueMany(p, 2*streamFrom, insertT, func(i int) []any {
			if i == 300 {
				return []any{struct{}{}, "x"}
			}
			return []any{i, "x"}
		})
		err := p.Flush(t.Context())
		var apply *failure.ApplyError
		if !errors.As(err, &apply) || apply.Seq != 301 {
			t.Fatalf("error %v: want one at event 301", err)
		}
		if err := p.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("names the earlier of two that fail, one here and one at the server", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		queueMany(p, 2*streamFrom, insertT, func(i int) []any {
			switch i {
			case 100:
				return []any{7, "again"}
			case 300:
				return []any{struct{}{}, "x"}
			}
			return []any{i, "x"}
		})
		err := p.Flush(t.Context())
		var apply *failure.ApplyError
		if !errors.As(err, &apply) || apply.Seq != 101 {
			t.Fatalf("error %v: want one at event 101", err)
		}
	})

	t.Run("names the event whose statement cannot be prepared", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		queueMany(p, streamFrom, insertT, func(i int) []any { return []any{i, "x"} })
		queueMany(p, 1, "INSERT INTO nowhere VALUES ($1)", func(int) []any { return []any{1} })
		err := p.Flush(t.Context())
		var apply *failure.ApplyError
		if !errors.As(err, &apply) || apply.Projection != "p" {
			t.Fatalf("error %v: want the projection's", err)
		}
	})

	t.Run("ends with its context and closes the connection", func(t *testing.T) {
		t.Parallel()
		p, _ := streaming(t)
		ctx, cancel := context.WithCancel(t.Context())
		queueMany(p, streamFrom, "SELECT pg_sleep(60)", func(int) []any { return nil })
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
		if err := p.Flush(ctx); !errors.Is(err, context.Canceled) || !p.Conn.IsClosed() {
			t.Fatalf("error %v, closed %t: want the context's, and a closed connection", err, p.Conn.IsClosed())
		}
	})

	t.Run("hands notices on", func(t *testing.T) {
		t.Parallel()
		p, notices := streaming(t)
		queueMany(p, streamFrom, "DROP TABLE IF EXISTS nowhere", func(int) []any { return nil })
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(*notices) != streamFrom {
			t.Errorf("%d notices, want %d", len(*notices), streamFrom)
		}
	})
}

func TestRunsCoverABatchInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var queries []*pgx.QueuedQuery
		var origins []Origin
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			n := rapid.SampledFrom([]int{1, 2, streamFrom - 1, streamFrom, streamFrom + 1}).Draw(t, "length")
			ours, read := rapid.Bool().Draw(t, "ours"), rapid.Bool().Draw(t, "read")
			for range n {
				q, o := &pgx.QueuedQuery{SQL: "SELECT 1"}, Origin{Projection: "p"}
				if ours {
					o = Origin{}
				}
				if read {
					q.Fn = func(pgx.BatchResults) error { return nil }
				}
				queries, origins = append(queries, q), append(origins, o)
			}
		}
		at := 0
		for _, r := range runs(queries, origins) {
			if r.from != at || r.to <= r.from {
				t.Fatalf("run %+v after %d", r, at)
			}
			at = r.to
			for i := r.from; r.stream && i < r.to; i++ {
				if queries[i].Fn != nil || origins[i].Projection == "" {
					t.Fatalf("statement %d is streamed: its result is read, or it is not a projection's", i)
				}
			}
		}
		if at != len(queries) {
			t.Fatalf("the runs end at %d of %d", at, len(queries))
		}
	})
}
