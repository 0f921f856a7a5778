package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

const (
	urlEnv = "TIDEMARK_TEST_DATABASE_URL"
	// SetupTimeout limits the setup of a test: creating a cluster, starting it, migrating, cloning.
	SetupTimeout = 3 * time.Minute
)

// Shared opens the server of all tests and returns the URL of its maintenance database.
func Shared(ctx context.Context) (url string, closeServer func() error, err error) {
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
