package docstest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheTopLevelIsAsItWasPromised expects the paths that every description of the project names.
// They stay, however small they are.
func TestTheTopLevelIsAsItWasPromised(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"go.mod", "cmd/worker", "cmd/migrate", "migrations", "pkg/outbox", "pkg/lease", "pkg/projector",
		"docker-compose.yml", "Makefile",
	} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
}
