package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxy.MayStay()...) }

// probe returns the status and the body of a path.
func probe(t *testing.T, p probes, path string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	p.register(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func connectTo(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestProbes(t *testing.T) {
	t.Parallel()
	t.Run("are green where loops go round and the database has the schema", func(t *testing.T) {
		t.Parallel()
		p := probes{pool: pgtest.New(t), stuck: []func() []string{func() []string { return nil }}}
		for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
			if code, body := probe(t, p, path); code != http.StatusOK || body != want {
				t.Errorf("%s answers %d %q", path, code, body)
			}
		}
	})
	t.Run("name the loops that are stuck, and are ready all the same", func(t *testing.T) {
		t.Parallel()
		p := probes{pool: pgtest.New(t), stuck: []func() []string{func() []string { return nil }, func() []string {
			return []string{"claim", "relay"}
		}}}
		if code, body := probe(t, p, "/healthz"); code != http.StatusServiceUnavailable || body != "stuck: claim, relay\n" {
			t.Errorf("/healthz answers %d %q", code, body)
		}
		if code, body := probe(t, p, "/readyz"); code != http.StatusOK {
			t.Errorf("/readyz answers %d %q", code, body)
		}
	})
	t.Run("without the database are not ready, and healthy", func(t *testing.T) {
		t.Parallel()
		link, url := proxy.ForPostgres(t, pgtest.New(t))
		p := probes{pool: connectTo(t, url)}
		if code, body := probe(t, p, "/readyz"); code != http.StatusOK {
			t.Fatalf("/readyz answers %d %q before the link is cut", code, body)
		}
		link.Stop()
		if code, body := probe(t, p, "/readyz"); code != http.StatusServiceUnavailable ||
			body != "the database does not answer\n" {
			t.Errorf("/readyz answers %d %q", code, body)
		}
		if code, body := probe(t, p, "/healthz"); code != http.StatusOK {
			t.Errorf("/healthz answers %d %q", code, body)
		}
	})
	t.Run("are green while the database is read-only: pages show all there is", func(t *testing.T) {
		t.Parallel()
		p := probes{pool: connectTo(t, pgtest.With(pgtest.URL(t), "default_transaction_read_only", "on"))}
		for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
			if code, body := probe(t, p, path); code != http.StatusOK || body != want {
				t.Errorf("%s answers %d %q", path, code, body)
			}
		}
	})
	t.Run("are not ready with a schema that is older, and are with one that is newer", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Empty(t)
		p := probes{pool: connectTo(t, url)}
		if err := migrations.UpTo(t.Context(), url, 1); err != nil {
			t.Fatal(err)
		}
		if code, body := probe(t, p, "/readyz"); code != http.StatusServiceUnavailable ||
			!strings.Contains(body, "tidemark migrate up") {
			t.Errorf("/readyz answers %d %q of version 1", code, body)
		}
		if err := migrations.Up(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		if _, err := p.pool.Exec(t.Context(),
			"INSERT INTO goose_db_version (version_id, is_applied) VALUES (1000000, true)"); err != nil {
			t.Fatal(err)
		}
		if code, body := probe(t, p, "/readyz"); code != http.StatusOK {
			t.Errorf("/readyz answers %d %q of a newer schema", code, body)
		}
	})
}
