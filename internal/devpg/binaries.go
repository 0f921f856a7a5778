package devpg

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binEnv names the folder with the Postgres binaries and ends the search.
const binEnv = "TIDEMARK_POSTGRES_BIN"

// binaries is a folder with postgres, initdb and pg_ctl in it.
type binaries string

func (b binaries) program(name string) string { return filepath.Join(string(b), name) }

func (b binaries) complete() bool {
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		info, err := os.Stat(b.program(name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// errNoBinaries is what a search that found nothing answers, with the places it looked at.
var errNoBinaries = errors.New("no PostgreSQL server binaries (postgres, initdb and pg_ctl) found")

// search holds what the search for binaries depends on.
type search struct {
	getenv func(string) string
	root   string // in front of absolute folders; empty outside of tests
}

// best answers the first folder that holds the binaries. With the environment variable set it is
// that folder or an error.
func (s search) best() (binaries, error) {
	if dir := s.getenv(binEnv); dir != "" {
		if b := binaries(dir); b.complete() {
			return b, nil
		}
		return "", fmt.Errorf("%w: %s is %q, which does not hold all of them", errNoBinaries, binEnv, dir)
	}
	dirs := filepath.SplitList(s.getenv("PATH"))
	patterns := []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/opt/homebrew/opt/postgresql/bin",
		"/usr/local/opt/postgresql@*/bin", "/usr/local/opt/postgresql/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	}
	for _, pattern := range patterns {
		dirs = append(dirs, newestFirst(filepath.Join(s.root, pattern))...)
	}
	for _, dir := range dirs {
		if b := binaries(dir); dir != "" && b.complete() {
			return b, nil
		}
	}
	return "", fmt.Errorf("%w: looked at %s, PATH, %s; install them (Debian: apt-get install postgresql; macOS: brew "+
		"install postgresql), name their folder in %s, or name a running server in %s", errNoBinaries, binEnv,
		strings.Join(patterns, ", "), binEnv, urlEnv)
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
