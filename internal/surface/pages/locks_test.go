package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
)

func TestTheOverviewNamesWhoHoldsLocksOfOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{
		"SET application_name = 'culprit'", "SELECT pg_advisory_lock(tidemark.lock_key(32003, 0))",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	status, body := w.get(t, auth.Viewer, "/")
	if status != http.StatusOK || !strings.Contains(body, ", culprit) holds Tidemark") ||
		!strings.Contains(body, "SELECT pg_terminate_backend(") {
		t.Errorf("the overview answers %d and does not name the session that holds locks\n%s", status, body)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
}
