package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, answer http.HandlerFunc) error {
		t.Helper()
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		cmd := NewCommand(Options{Name: "worker"})
		cmd.SetArgs([]string{"healthcheck", "--http-addr", strings.TrimPrefix(server.URL, "http://")})
		return cmd.ExecuteContext(t.Context())
	}
	t.Run("is content with a worker that is ready", func(t *testing.T) {
		t.Parallel()
		if err := ask(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				w.WriteHeader(http.StatusNotFound)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("fails with the worker's own words when it is not", func(t *testing.T) {
		t.Parallel()
		err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		})
		if err == nil || !strings.Contains(err.Error(), "the database does not answer") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("fails when nothing answers", func(t *testing.T) {
		t.Parallel()
		cmd := NewCommand(Options{Name: "worker"})
		cmd.SetArgs([]string{"healthcheck", "--http-addr", "127.0.0.1:1"})
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}
