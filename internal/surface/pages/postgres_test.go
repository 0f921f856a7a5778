package pages_test

import (
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAPreparedAppendIsShownWithWhatEndsIt(t *testing.T) {
	t.Parallel()
	url := pgtest.Server(t).URL()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w := &world{pool: pool, token: map[auth.Role]string{}}
	w.serve(t, worldCode())
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{
		"SET application_name = 'culprit'",
		"BEGIN", `SELECT FROM tidemark.append('c', '[{"type": "noted"}]')`, "PREPARE TRANSACTION 'forgotten'",
		"SELECT pg_advisory_lock(tidemark.lock_key(32003, 0))",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	const prepared = "prepared transaction 'forgotten'; end it: ROLLBACK PREPARED 'forgotten'"
	deadline := time.Now().Add(3 * time.Minute)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		status, body := w.get(t, auth.Viewer, "/postgres")
		if status == http.StatusOK && strings.Count(html.UnescapeString(body), prepared) == 2 {
			break // it is the oldest transaction, and the journal's oldest append
		}
		if time.Now().After(deadline) { // until then a transaction of the server's own may be older
			t.Fatalf("/postgres answers %d, without %q twice\n%s", status, prepared, body)
		}
	}
	for _, path := range []string{"/postgres", "/"} {
		_, body := w.get(t, auth.Viewer, path)
		if !strings.Contains(body, ", culprit) holds advisory locks") ||
			!strings.Contains(body, "SELECT pg_terminate_backend(") {
			t.Errorf("%s does not name the session that holds locks\n%s", path, body)
		}
	}
	for _, sql := range []string{"SELECT pg_advisory_unlock_all()", "ROLLBACK PREPARED 'forgotten'"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
