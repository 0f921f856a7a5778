package devpg_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

func TestURLUsesTheServerThatTheEnvironmentNames(t *testing.T) {
	const named = "postgres://somebody@db.example:5433/journal"
	t.Setenv("TIDEMARK_DATABASE_URL", named)
	url, done, err := devpg.URL(t.Context(), nil, false)
	if err != nil || url != named {
		t.Fatalf("got %q, %v", url, err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}

func TestURLStartsThePrivateServerOnlyForDevelopment(t *testing.T) {
	dir := stateFolder(t)
	t.Setenv("TIDEMARK_DATABASE_URL", "")
	t.Chdir(dir)
	if url, _, err := devpg.URL(t.Context(), nil, false); err == nil {
		t.Errorf("nothing names a database, and it is %s", url)
	}
	url, done, err := devpg.URL(t.Context(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeCluster(t, dir+"/.tidemark") })
	if got := query(t, url, "SELECT current_database()"); got != devpg.Database {
		t.Errorf("connected to %q", got)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	if !gone(t, url) {
		t.Error("the server outlives the command")
	}
}
