package devpg

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// install creates programs with these names that print text.
func install(t *testing.T, dir, text string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBinariesAreSearchedInTheDocumentedOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	server := []string{"postgres", "initdb", "pg_ctl"}
	install(t, at("path"), "", server...)
	install(t, at("clientonly"), "", "psql", "postgres", "initdb")
	install(t, at("usr/lib/postgresql/9.6/bin"), "", server...)
	install(t, at("usr/lib/postgresql/16/bin"), "", server...)
	install(t, at("usr/lib/postgresql/17/bin"), "", "psql")
	install(t, at("opt/homebrew/opt/postgresql@14/bin"), "", server...)
	path := strings.Join([]string{at("clientonly"), at("path")}, string(filepath.ListSeparator))

	env := map[string]string{"PATH": path}
	search := search{getenv: func(name string) string { return env[name] }, root: root}
	want := []string{
		at("path"), at("usr/lib/postgresql/16/bin"), at("usr/lib/postgresql/9.6/bin"),
		at("opt/homebrew/opt/postgresql@14/bin"),
	}
	env[binEnv] = want[2]
	if found, err := search.best(); err != nil || found != binaries(want[2]) {
		t.Errorf("with %s set, found %v, %v", binEnv, found, err)
	}
	delete(env, binEnv)
	for _, dir := range want {
		if found, err := search.best(); err != nil || found != binaries(dir) {
			t.Errorf("found %v, %v, want %v", found, err, dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASearchWithoutResultSaysWhereItLookedAndWhatToDo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, c := range map[string]struct {
		env  map[string]string
		says []string
	}{
		"nothing installed": {
			env: map[string]string{"PATH": root},
			says: []string{
				binEnv, "PATH", "/usr/lib/postgresql/*/bin", "homebrew", "apt-get install postgresql",
				urlEnv,
			},
		},
		"a wrong folder named": {
			env:  map[string]string{binEnv: "/no/such/folder"},
			says: []string{binEnv, "/no/such/folder"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := search{getenv: func(name string) string { return c.env[name] }, root: root}.best()
			if !errors.Is(err, errNoBinaries) {
				t.Fatalf("got %v", err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the message does not name %s: %v", word, err)
				}
			}
		})
	}
}

func TestTheStateFolderIsFoundUpwards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tree, wd, want string }{
		"at the repository": {
			tree: "repo/.git/,repo/go.mod,repo/bench/go.mod", wd: "repo/bench",
			want: "repo",
		},
		"where a state folder is": {
			tree: "repo/.git/,repo/sub/.tidemark/", wd: "repo/sub/deep",
			want: "repo/sub",
		},
		"at the outermost module":              {tree: "src/go.mod,src/bench/go.mod", wd: "src/bench", want: "src"},
		"in the working directory for want of": {tree: "", wd: "plain", want: "plain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, entry := range append(strings.Split(c.tree, ","), c.wd+"/") {
				path := filepath.Join(root, entry)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(entry, "/") {
					if err := os.MkdirAll(path, 0o755); err != nil {
						t.Fatal(err)
					}
				} else if entry != "" {
					if err := os.WriteFile(path, nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := stateDir(filepath.Join(root, c.wd))
			if want := filepath.Join(root, c.want, stateName); err != nil || got != want {
				t.Errorf("found %s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestAPostgresIsInstalledOnlyWhereThereIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, bin, wanted string // folders below the root: of programs, named, and found
		calls             int
		fails             error
	}{
		"none":                    {wanted: "cache/bin", calls: 1},
		"one in PATH":             {path: "opt/pg", wanted: "opt/pg"},
		"one that was downloaded": {path: "cache/bin", wanted: "cache/bin"},
		"another folder is named": {bin: "opt/none"},
		"no network":              {calls: 1, fails: errors.New("maven.example: no route")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			programs := func(dir string) { install(t, filepath.Join(root, dir), "", "postgres", "initdb", "pg_ctl") }
			s := search{root: root, installed: filepath.Join(root, "cache"), getenv: func(name string) string {
				switch {
				case name == binEnv && c.bin != "":
					return filepath.Join(root, c.bin)
				case name == "PATH":
					return filepath.Join(root, c.path)
				}
				return ""
			}}
			if c.path != "" {
				programs(c.path)
			}
			calls := 0
			err := s.provide(t.Context(), func(_ context.Context, dir string) error {
				calls++
				if dir != s.installed {
					t.Errorf("it is installed in %s", dir)
				}
				if c.fails == nil {
					programs("cache/bin")
				}
				return c.fails
			}, slog.New(slog.DiscardHandler))
			if calls != c.calls {
				t.Errorf("it is installed %d times, want %d", calls, c.calls)
			}
			if c.fails != nil {
				if !errors.Is(err, c.fails) || !errors.Is(err, errNoBinaries) {
					t.Errorf("it says %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			found, err := s.best()
			if wanted := filepath.Join(root, c.wanted); c.wanted != "" && (err != nil || string(found) != wanted) {
				t.Errorf("found %s (%v), want %s", found, err, wanted)
			}
		})
	}
}
