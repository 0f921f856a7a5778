package embedded

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

// repository serves an archive as Maven Central does. Its programs, testdata/postgres.txz, are scripts that
// run those of the Postgres in the folder TIDEMARK_TEST_POSTGRES.
func repository(t *testing.T) string {
	t.Helper()
	programs, err := os.ReadFile("testdata/postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	file, err := archive.Create("postgres.txz")
	if err == nil {
		_, err = file.Write(programs)
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") || !strings.Contains(r.URL.Path, string(version)) {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// postgres returns the folder of the machine's Postgres.
func postgres(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c",
		`dirname "$(ls "$TIDEMARK_POSTGRES_BIN"/initdb $(command -v initdb) /usr/lib/postgresql/*/bin/initdb | tail -1)"`,
	).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestADownloadedPostgresServes takes a Postgres from a repository and runs a server with it.
func TestADownloadedPostgresServes(t *testing.T) {
	t.Setenv("TIDEMARK_TEST_POSTGRES", postgres(t))
	dir := reachable(t)
	bin := filepath.Join(dir, "cache", "postgres")
	if err := install(t.Context(), bin, repository(t)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(bin)); err != nil || len(left) != 1 {
		t.Errorf("beside the programs it leaves %v (%v)", left, err)
	}
	t.Setenv("TIDEMARK_POSTGRES_BIN", filepath.Join(bin, "bin"))
	server, err := devpg.Open(t.Context(), devpg.Config{Dir: filepath.Join(dir, "state"), Private: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// reachable returns a folder that the user of root's servers can pass through.
func reachable(t *testing.T) string {
	t.Helper()
	//nolint:usetesting // another user passes through each folder of the path
	dir, err := os.MkdirTemp("/var/tmp", "tidemark-embedded-*")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestADownloadThatFailsSaysWhatAndFromWhere(t *testing.T) {
	t.Parallel()
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	dir := filepath.Join(t.TempDir(), "cache", "postgres")
	err := install(t.Context(), dir, empty.URL)
	for _, want := range []string{"PostgreSQL " + string(version), runtime.GOOS + "/" + runtime.GOARCH, empty.URL} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v (%v)", left, err)
	}
}
