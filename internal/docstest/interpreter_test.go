package docstest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runTimeout bounds one run of a snippet.
const runTimeout = time.Minute

// interpreter runs programs from standard input, with the database in TIDEMARK_DATABASE_URL.
type interpreter struct {
	path string
	args func(url string) []string
	env  []string
}

func (in *interpreter) run(ctx context.Context, url, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, in.path, in.args(url)...)
	cmd.Env = append(append(os.Environ(), "TIDEMARK_DATABASE_URL="+url), in.env...)
	cmd.Stdin = strings.NewReader(program)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func psql(t *testing.T) *interpreter {
	t.Helper()
	candidates := []string{filepath.Join(os.Getenv("TIDEMARK_POSTGRES_BIN"), "psql"), "psql"}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/psql", "/opt/homebrew/opt/*/bin/psql",
		"/usr/local/opt/*/bin/psql",
	} {
		found, _ := filepath.Glob(pattern) // the only error is a malformed pattern
		candidates = append(candidates, found...)
	}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil {
			return &interpreter{path: path, args: func(url string) []string {
				return []string{"--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname=" + url}
			}}
		}
	}
	t.Fatalf("psql is missing, looked at %s: it comes with Postgres (Debian: apt-get install postgresql-client)",
		strings.Join(candidates, ", "))
	return nil
}

func python(t *testing.T) *interpreter {
	t.Helper()
	args := func(string) []string { return []string{"-"} }
	return withDriver(t, "psycopg 3", "import psycopg; assert psycopg.__version__ >= '3'",
		&interpreter{path: "python3", args: args},
		&interpreter{path: "/usr/bin/python3", args: args}) // has Debian's psycopg, whatever is first in PATH
}

func node(t *testing.T) *interpreter {
	t.Helper()
	drivers, err := filepath.Abs(filepath.Join(root, ".tidemark/node/node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	return withDriver(t, "pg", "require('pg')", &interpreter{
		path: "node",
		args: func(string) []string { return []string{"-"} },
		env:  []string{"NODE_PATH=" + drivers + string(filepath.ListSeparator) + "/usr/share/nodejs"},
	})
}

// withDriver returns the first candidate that can run the probe, which loads a driver. Without an
// interpreter it logs that and returns nil. An interpreter without the driver fails the test in CI
// only.
func withDriver(t *testing.T, driver, probe string, candidates ...*interpreter) *interpreter {
	t.Helper()
	here := false
	for _, candidate := range candidates {
		path, err := exec.LookPath(candidate.path)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		here = true
		candidate.path = path
		out, err := candidate.run(t.Context(), "", probe)
		if err == nil {
			return candidate
		}
		t.Logf("%s without %s: %s", path, driver, lastLine(out))
	}
	switch {
	case !here:
		t.Logf("NOT RUN: there is no %s here", candidates[0].path)
	case os.Getenv("CI") == "true":
		t.Errorf("%s is here without %s: scripts/need.sh drivers installs it", candidates[0].path, driver)
	default:
		t.Logf("NOT RUN: %s is here without %s; scripts/need.sh drivers installs it", candidates[0].path, driver)
	}
	return nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// trimmed removes white space that a reader does not see.
func trimmed(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
