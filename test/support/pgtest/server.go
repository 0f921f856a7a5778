package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/testdb"
)

// Server starts a server for this test alone in a temporary folder, for tests that stop or kill it.
// Committed data survives any end of its processes: without fsync only a crash of the machine loses
// data. The server stops at the end of the test.
func Server(t testing.TB) *devpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testdb.SetupTimeout)
	defer cancel()
	settings := map[string]string{
		"shared_buffers": "32MB", "fsync": "off", "max_prepared_transactions": "8",
		"search_path": searchPath,
	}
	for _, setting := range hostile() {
		settings[setting[0]] = strings.Trim(setting[1], "'")
	}
	server, err := devpg.Open(ctx, devpg.Config{Private: true, Settings: settings})
	if err != nil {
		t.Fatalf("this test needs a Postgres server of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the test's server: %v", err)
		}
	})
	return server
}
