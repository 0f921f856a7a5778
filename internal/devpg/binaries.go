package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binEnv names the folder of the Postgres binaries. If it is set, no other folder is searched.
const binEnv = "TIDEMARK_POSTGRES_BIN"

// binaries is the path of a folder that contains postgres, initdb and pg_ctl.
type binaries string

func (b binaries) program(name string) string { return filepath.Join(string(b), name) }

func (b binaries) complete() bool {
	return !slices.ContainsFunc([]string{"postgres", "initdb", "pg_ctl"}, func(name string) bool {
		info, err := os.Stat(b.program(name))
		return err != nil || info.IsDir() || info.Mode()&0o111 == 0
	})
}

// errNoBinaries is wrapped with the places that were searched.
var errNoBinaries = errors.New("no PostgreSQL server binaries (postgres, initdb and pg_ctl) found")

type search struct {
	getenv func(string) string
	root   string // prefix of absolute folders; empty outside of tests
	// installed is the folder of [Config.Install], which is searched last; empty: none
	installed string
}

// installed returns the folder that [Config.Install] fills, for all checkouts of the user; empty: the user
// has none. Root's is one that the server's user can reach.
func installed() string {
	if os.Geteuid() == 0 {
		return "/var/cache/tidemark/postgres"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "tidemark", "postgres")
}

// provide calls install unless there is a Postgres. install may be nil.
func (s search) provide(ctx context.Context, install func(context.Context, string) error, log *slog.Logger) error {
	_, missing := s.best()
	if missing == nil || install == nil || s.installed == "" || s.getenv(binEnv) != "" {
		return nil // without binaries a server may be running, or making a cluster names what is missing
	}
	log.WarnContext(ctx, "no Postgres is installed: downloading one", "dir", s.installed)
	if err := install(ctx, s.installed); err != nil {
		return fmt.Errorf("%w. The download failed: %w", missing, err)
	}
	return nil
}

// best returns the first folder that has all binaries. If the environment variable is set, it returns
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
	if s.installed != "" {
		dirs = append(dirs, filepath.Join(s.installed, "bin"))
	}
	for _, dir := range dirs {
		if b := binaries(dir); dir != "" && b.complete() {
			return b, nil
		}
	}
	return "", fmt.Errorf("%w: looked at %s, PATH, %s; install them (Debian: apt-get install postgresql; macOS: brew "+
		"install postgresql), name their folder in %s, or name a running server in %s; tidemark "+
		"--dev downloads them", errNoBinaries, binEnv,
		strings.Join(patterns, ", "), binEnv, urlEnv)
}

// newestFirst expands the pattern and sorts the folders by version, the newest first: 16 before 9.6.
func newestFirst(pattern string) []string {
	matches, _ := filepath.Glob(pattern) // the only error is a malformed pattern
	version := func(dir string) float64 {
		name := filepath.Base(filepath.Dir(dir))
		number, _ := strconv.ParseFloat(name[strings.Index(name, "@")+1:], 64)
		return number
	}
	slices.SortFunc(matches, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return matches
}
