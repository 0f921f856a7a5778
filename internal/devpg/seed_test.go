package devpg_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

// identifier names what initdb has made: its copies have the same one.
const identifier = "SELECT system_identifier::text FROM pg_control_system()"

func TestClustersAreCopiedFromASeed(t *testing.T) {
	t.Parallel()
	seed := filepath.Join(t.TempDir(), "seed")
	// What a process that was killed has left is no seed.
	if err := os.MkdirAll(filepath.Join(seed, "copying", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	made := func(seed string) *devpg.Server {
		cfg := quick(stateFolder(t))
		cfg.Seed = seed
		return open(t, cfg)
	}
	first := made(seed)
	mustExec(t, first.URL(), "CREATE TABLE kept AS SELECT 'the first one''s' AS word")
	second := made(seed)
	if here, there := query(t, first.URL(), identifier), query(t, second.URL(), identifier); here != there {
		t.Errorf("initdb has made both clusters: %s and %s", here, there)
	}
	if _, err := tryQuery(t, second.URL(), readTable); err == nil {
		t.Error("what is in one cluster is in the other")
	}
	if _, err := os.Stat(filepath.Join(seed, "copying")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the killed process has left is still there: %v", err)
	}
	if query(t, made("").URL(), identifier) == query(t, first.URL(), identifier) {
		t.Error("a cluster is copied though no seed is named")
	}
}
