package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

const (
	urlEnv = "TIDEMARK_TEST_DATABASE_URL"
	// setupTimeout limits the setup of a test: creating a cluster, starting it, migrating, cloning.
	setupTimeout = 3 * time.Minute
)

// Server starts a server for this test alone in a temporary folder, for tests that stop or kill it.
// Committed data survives any end of its processes: without fsync only a crash of the machine loses
// data. The server stops at the end of the test.
func Server(t testing.TB) *devpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	settings := map[string]string{
		"shared_buffers": "32MB", "fsync": "off", "max_prepared_transactions": "8",
		"search_path": readModels + ", public",
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

// shared opens the server of all tests and returns the URL of its maintenance database.
func shared(ctx context.Context) (url string, closeServer func() error, err error) {
	if url := os.Getenv(urlEnv); url != "" {
		return url, func() error { return nil }, nil
	}
	dir, err := clusterDir()
	if err != nil {
		return "", nil, err
	}
	server, err := devpg.Open(ctx, devpg.Config{
		Dir: dir,
		Settings: map[string]string{
			"fsync":                 "off",
			"full_page_writes":      "off",
			"max_connections":       "300",
			"max_wal_size":          "512MB",
			"bgwriter_lru_maxpages": "0", // the databases are gone in a moment
			"update_process_title":  "off",
		},
	})
	if err != nil {
		return "", nil, fmt.Errorf("the tests need Postgres (or its URL in %s): %w", urlEnv, err)
	}
	return server.URL(), server.Close, nil
}

const (
	memory     = "/dev/shm"
	memoryFree = 4 << 30 // bytes
)

// clusterDir answers the state folder of the tests' server. It is in memory where there is plenty: to
// create and drop a database is work on some three hundred files, a tenth as much there as on a disk.
func clusterDir() (string, error) {
	state, err := devpg.DefaultDir()
	if err != nil {
		return "", err
	}
	checkout := sha256.Sum256([]byte(state))
	dir := filepath.Join(memory, "tidemark-test-"+hex.EncodeToString(checkout[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	var space syscall.Statfs_t
	if syscall.Statfs(memory, &space) == nil && space.Bavail*uint64(space.Bsize) >= memoryFree {
		return dir, nil
	}
	return filepath.Join(state, "test"), nil
}
