package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binEnv names the folder with the Postgres binaries and ends the search.
const binEnv = "TIDEMARK_POSTGRES_BIN"

// binaries is a folder with postgres and initdb in it.
type binaries string

func (b binaries) postgres() string { return filepath.Join(string(b), "postgres") }
func (b binaries) initdb() string   { return filepath.Join(string(b), "initdb") }

func (b binaries) complete() bool {
	for _, program := range []string{b.postgres(), b.initdb()} {
		info, err := os.Stat(program)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// major answers the version in the form of a cluster's PG_VERSION file: "15".
func (b binaries) major(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, b.postgres(), "-V").Output() // postgres (PostgreSQL) 15.8 (Debian …)
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", b.postgres(), err)
	}
	_, version, _ := strings.Cut(string(out), "(PostgreSQL) ")
	digits := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return "", fmt.Errorf("ask %s for its version: it says %q", b.postgres(), strings.TrimSpace(string(out)))
	}
	return version[:digits], nil
}

// errNoBinaries is what a search that found nothing answers, with the places it looked at.
var errNoBinaries = errors.New("no PostgreSQL server binaries (postgres and initdb) found")

// search holds what the search for binaries depends on.
type search struct {
	getenv func(string) string
	root   string // in front of absolute folders; empty outside of tests
}

// all answers the folders that hold the binaries, the best first. With the environment variable set
// it is that folder or an error.
func (s search) all(ctx context.Context) ([]binaries, error) {
	if dir := s.getenv(binEnv); dir != "" {
		if b := binaries(dir); b.complete() {
			return []binaries{b}, nil
		}
		return nil, fmt.Errorf("%w: %s is %q, which does not hold both", errNoBinaries, binEnv, dir)
	}
	path := s.getenv("PATH")
	var dirs []string
	if dir := s.pgConfig(ctx, path); dir != "" {
		dirs = append(dirs, dir)
	}
	dirs = append(dirs, filepath.SplitList(path)...)
	patterns := []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/opt/homebrew/opt/postgresql/bin",
		"/usr/local/opt/postgresql@*/bin", "/usr/local/opt/postgresql/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	}
	for _, pattern := range patterns {
		dirs = append(dirs, newestFirst(filepath.Join(s.root, pattern))...)
	}
	var found []binaries
	for _, dir := range dirs {
		if b := binaries(dir); dir != "" && b.complete() && !slices.Contains(found, b) {
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: looked at %s, `pg_config --bindir`, PATH, %s; install them (Debian: apt-get install "+
			"postgresql; macOS: brew install postgresql), "+
			"name their folder in %s, or name a running server in %s", errNoBinaries, binEnv, strings.Join(patterns, ", "),
			binEnv, urlEnv)
	}
	return found, nil
}

func (s search) pgConfig(ctx context.Context, path string) string {
	for _, dir := range filepath.SplitList(path) {
		out, err := exec.CommandContext(ctx, filepath.Join(dir, "pg_config"), "--bindir").Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

// newestFirst expands the pattern and sorts by the number in the one folder name that differs: 16 before 9.6.
func newestFirst(pattern string) []string {
	matches, _ := filepath.Glob(pattern) // the only error is a malformed pattern, and ours are constants
	version := func(dir string) float64 {
		name := filepath.Base(filepath.Dir(dir))
		if _, after, ok := strings.Cut(name, "@"); ok {
			name = after
		}
		number, _ := strconv.ParseFloat(name, 64)
		return number
	}
	slices.SortFunc(matches, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return matches
}
