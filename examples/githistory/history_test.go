package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fold reads the history after base and applies each event to tree, campaign by campaign, like the
// projection. It returns the events in order, one line each.
func fold(t failer, r *testRepository, base string, depth int, tree map[string]string) []string {
	t.Helper()
	repo, err := openRepository(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	translator := translator{campaigns: campaigns{repository: "test", depth: depth}}
	rows := make(map[string]string) // by campaign and path
	for path, entry := range tree {
		rows[translator.campaigns.of(path)+"\x00"+encodePath(path)] = entry
	}
	var lines []string
	ids := make(map[string]string)
	number := int64(0)
	for c, err := range repo.history(t.Context(), base) {
		if err != nil {
			t.Fatal(err)
		}
		number++
		for ch, err := range c.changes {
			if err != nil {
				t.Fatal(err)
			}
			events, err := translator.events(c, number, ch)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				var f file
				if err := json.Unmarshal(e.event.Payload, &f); err != nil {
					t.Fatal(err)
				}
				campaign := strings.TrimPrefix(e.campaign, translator.campaigns.prefix())
				line := strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.event.Type, campaign, f.From, f.Path))
				if other, taken := ids[e.event.ID.String()]; taken {
					t.Errorf("events %q and %q share the id %s", other, line, e.event.ID)
				}
				ids[e.event.ID.String()] = line
				lines = append(lines, line)
				switch e.event.Type {
				case fileDeleted:
					delete(rows, e.campaign+"\x00"+f.Path)
				case fileRenamed:
					delete(rows, e.campaign+"\x00"+f.From)
					fallthrough
				default:
					rows[e.campaign+"\x00"+f.Path] = f.Mode + " " + f.Object
				}
			}
		}
	}
	clear(tree)
	for key, entry := range rows {
		_, path, _ := strings.Cut(key, "\x00")
		tree[decodePath(t, path)] = entry
	}
	return lines
}

// requireFoldEqualsTree folds the whole history and compares the result with git's own listing.
func requireFoldEqualsTree(t testing.TB, r *testRepository, depth int) []string {
	t.Helper()
	tree := make(map[string]string)
	lines := fold(t, r, "", depth, tree)
	requireTree(t, r, tree)
	return lines
}

func requireTree(t failer, r *testRepository, got map[string]string) {
	t.Helper()
	want := r.tree()
	if maps.Equal(got, want) {
		return
	}
	for path, entry := range got {
		if want[path] != entry {
			t.Errorf("%q is %q after the fold, %q in git", path, entry, want[path])
		}
	}
	for path, entry := range want {
		if _, ok := got[path]; !ok {
			t.Errorf("%q is missing after the fold, %q in git", path, entry)
		}
	}
}

// decodePath reverses encodePath.
func decodePath(t failer, path string) string {
	t.Helper()
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] != '\\':
			out.WriteByte(path[i])
		case path[i+1] == '\\':
			out.WriteByte('\\')
			i++
		default:
			b, err := strconv.ParseUint(path[i+2:i+4], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteByte(byte(b))
			i += 3
		}
	}
	return out.String()
}

func requireLines(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()

	t.Run("adds modifies and deletes in commit order", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("README", "one\n")
		r.write("src/a.go", "package a\n")
		r.commit("first")
		r.write("README", "two\n")
		r.commit("second")
		r.commit("nothing changed")
		r.remove("src")
		r.write("doc/deep/er/page.md", "text\n")
		r.commit("fourth")
		requireLines(t, requireFoldEqualsTree(t, r, 1),
			"file_added .  README", "file_added src  src/a.go",
			"file_modified .  README",
			"file_added doc  doc/deep/er/page.md", "file_deleted src  src/a.go")
	})

	t.Run("starts with an empty commit", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.commit("empty")
		r.write("a", "a")
		r.commit("a file")
		r.commit("empty again")
		requireLines(t, requireFoldEqualsTree(t, r, 1), "file_added .  a")
	})

	t.Run("names modes and types", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("run.sh", "#!/bin/sh\n")
		r.write("plain", "content\n")
		r.commit("files")
		r.chmod("run.sh", 0o755)
		r.commit("executable")
		r.chmod("run.sh", 0o644)
		r.write("run.sh", "#!/bin/sh\nexit\n")
		r.commit("content and mode")
		r.symlink("run.sh", "plain")
		r.commit("a link now")
		r.git("rm", "-q", "plain")
		r.git("update-index", "--add", "--cacheinfo", "160000,"+r.git("rev-parse", "HEAD")+",plain")
		r.commitIndex("a submodule now")
		r.git("update-index", "--cacheinfo", "160000,"+r.git("rev-parse", "HEAD")+",plain")
		r.commitIndex("the submodule moves on")
		requireLines(t, requireFoldEqualsTree(t, r, 1),
			"file_added .  plain", "file_added .  run.sh",
			"file_mode_changed .  run.sh",
			"file_modified .  run.sh",
			"file_type_changed .  plain",
			"file_type_changed .  plain",
			"file_modified .  plain")
	})

	t.Run("sees submodules that the configuration ignores", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = ./lib\n\tignore = all\n")
		r.commit("declare")
		r.git("config", "diff.ignoreSubmodules", "all")
		for range 2 {
			r.git("update-index", "--add", "--cacheinfo", "160000,"+r.git("rev-parse", "HEAD")+",lib")
			r.commitIndex("move the submodule")
		}
		requireLines(t, requireFoldEqualsTree(t, r, 1),
			"file_added .  .gitmodules", "file_added .  lib", "file_modified .  lib")
	})

	t.Run("turns a file into a folder and back", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("x", "one\n")
		r.commit("a file")
		r.remove("x")
		r.write("x/y", "two, quite different\n")
		r.commit("a folder")
		r.remove("x")
		r.write("x", "three is neither\n")
		r.commit("a file again")
		requireLines(t, requireFoldEqualsTree(t, r, 1),
			"file_added .  x",
			"file_deleted .  x", "file_added x  x/y",
			"file_added .  x", "file_deleted x  x/y")
	})

	t.Run("renames within a campaign and across two", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("a/one", strings.Repeat("a line of one\n", 20))
		r.write("a/two", strings.Repeat("a line of two\n", 20))
		r.commit("files")
		r.git("mv", "a/one", "a/uno")
		r.commit("within")
		r.remove("a/two")
		r.write("b/two", strings.Repeat("a line of two\n", 20)+"and one more\n")
		r.commit("across")
		requireLines(t, requireFoldEqualsTree(t, r, 1),
			"file_added a  a/one", "file_added a  a/two",
			"file_renamed a a/one a/uno",
			"file_deleted a  a/two", "file_added b a/two b/two")
		requireLines(t, requireFoldEqualsTree(t, r, 0),
			"file_added .  a/one", "file_added .  a/two",
			"file_renamed . a/one a/uno",
			"file_renamed . a/two b/two")
	})

	t.Run("survives files that swap their names or multiply", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("a/one", strings.Repeat("a line of one\n", 20))
		r.write("a/two", strings.Repeat("a line of two\n", 20))
		r.commit("files")
		r.git("mv", "a/one", "a/swap")
		r.git("mv", "a/two", "a/one")
		r.git("mv", "a/swap", "a/two")
		r.commit("swapped")
		r.remove("a/one")
		for _, copied := range []string{"a/x", "a/y", "b/x", "c/d/x"} {
			r.write(copied, strings.Repeat("a line of two\n", 20))
		}
		r.commit("multiplied")
		requireFoldEqualsTree(t, r, 1)
	})

	t.Run("follows first parents through merges", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("base", "base\n")
		r.write("both", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
		r.commit("base")
		r.git("checkout", "-q", "-b", "side")
		r.write("side/file", "side\n")
		r.commit("on the side")
		r.write("both", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")
		r.commit("on the side again")
		r.git("checkout", "-q", "main")
		r.write("both", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
		r.commit("on main")
		r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
		r.git("checkout", "-q", "--orphan", "stranger")
		r.git("rm", "-rfq", ".")
		r.write("stranger", "of another root\n")
		r.commit("another root")
		r.git("checkout", "-q", "main")
		r.git("merge", "-q", "--allow-unrelated-histories", "-m", "three roots", "side", "stranger")
		requireLines(t, requireFoldEqualsTree(t, r, 1),
			"file_added .  base", "file_added .  both",
			"file_modified .  both",
			"file_modified .  both", "file_added side  side/file",
			"file_added .  stranger")
	})

	t.Run("goes from any commit to any other", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		r.write("a", "1")
		first := r.commit("first")
		tree := make(map[string]string)
		fold(t, r, "", 1, tree)
		r.write("a", "2")
		r.write("b", "2")
		second := r.commit("second")
		fold(t, r, first, 1, tree)
		requireTree(t, r, tree)
		r.git("checkout", "-q", "-b", "other", first)
		r.write("c", "2")
		third := r.commit("third")
		requireLines(t, fold(t, r, second, 1, tree), "file_modified .  a", "file_renamed . b c")
		requireTree(t, r, tree)
		r.git("checkout", "-q", "-B", "back", first)
		requireLines(t, fold(t, r, third, 1, tree), "file_deleted .  c")
		requireTree(t, r, tree)
	})
}
