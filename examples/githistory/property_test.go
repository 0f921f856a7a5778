package main

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/test/support/rapidtest"
)

// randomHistory draws a stream for git fast-import that adds commits to the repository. They set,
// delete and move files (by deleting here and adding there) of any kind, at odd paths, with
// branches and merges. Marks number the commits from first on. A commit may have any earlier one as
// its parent, so the last commit, which becomes HEAD, may not descend from the old HEAD.
func randomHistory(t *rapid.T, first, commits int) string {
	paths := append([]string{"a", "b", "dir/a", "dir/b", "dir/sub/a", "other/a", "other/b/c", "a/b", "dir"}, oddPaths()...)
	var stream strings.Builder
	for mark := first; mark < first+commits; mark++ {
		fmt.Fprintf(&stream, "commit refs/heads/main\nmark :%d\ncommitter Ada <ada@example.org> %d +0000\ndata 0\n", mark,
			mark)
		if mark > 1 {
			parents := rapid.SliceOfNDistinct(rapid.IntRange(1, mark-1), 1, 2, rapid.ID[int]).Draw(t, "parents")
			if rapid.Bool().Draw(t, "straight on") {
				parents[0] = mark - 1
			}
			for i, parent := range parents {
				if i > 0 && parent == parents[0] {
					continue
				}
				fmt.Fprintf(&stream, "%s :%d\n", []string{"from", "merge"}[i], parent)
			}
		} else {
			stream.WriteString("deleteall\n")
		}
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			path := quote(rapid.SampledFrom(paths).Draw(t, "path"))
			switch kind := rapid.SampledFrom([]string{
				"D", "D", "100644", "100644", "100644", "100755", "120000",
				"160000",
			}).Draw(t, "kind"); kind {
			case "D":
				fmt.Fprintf(&stream, "D %s\n", path)
			case "160000":
				fmt.Fprintf(&stream, "M 160000 %040x %s\n", rapid.IntRange(1, 3).Draw(t, "submodule"), path)
			default:
				// Few different contents, and long: a deleted and an added file are often alike,
				// and so a rename.
				line := rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "content")
				content := strings.Repeat(line+"\n", 20) + strings.Repeat("more\n", rapid.IntRange(0, 2).Draw(t, "more"))
				fmt.Fprintf(&stream, "M %s inline %s\ndata %d\n%s\n", kind, path, len(content), content)
			}
		}
	}
	return stream.String()
}

// quote writes a path in the syntax of fast-import.
func quote(path string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(path) {
		fmt.Fprintf(&out, "\\%03o", path[i])
	}
	out.WriteByte('"')
	return out.String()
}

func TestHistoryOfAnyRepositoryAddsUpToItsTree(t *testing.T) {
	t.Parallel()
	rapidtest.Check(t, 30, func(rt *rapid.T) { // each run calls git about twenty times
		r := newTestRepository(t)
		depth := rapid.IntRange(0, 3).Draw(rt, "depth")
		commits := rapid.IntRange(1, 12).Draw(rt, "commits")
		marks := r.dir + "/.git/marks"
		r.gitWith(randomHistory(rt, 1, commits), "fast-import", "--quiet", "--export-marks="+marks)
		tree := make(map[string]string)
		fold(rt, r, "", depth, tree)
		requireTree(rt, r, tree)

		head := r.git("rev-parse", "HEAD")
		r.gitWith(randomHistory(rt, commits+1, rapid.IntRange(1, 4).Draw(rt, "more commits")), "fast-import", "--quiet",
			"--force", "--import-marks="+marks)
		fold(rt, r, head, depth, tree)
		requireTree(rt, r, tree)
	})
}
