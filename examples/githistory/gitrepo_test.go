package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	rapid.TB
	Context() context.Context
}

// testRepository is a git repository for one test.
type testRepository struct {
	t   testing.TB
	dir string
}

func newTestRepository(t testing.TB) *testRepository {
	t.Helper()
	r := &testRepository{t: t, dir: t.TempDir()}
	r.git("init", "-q", "--template=", "-b", "main") // without the dozen example hooks
	return r
}

// git runs git without the user's configuration and returns its output.
func (r *testRepository) git(args ...string) string {
	r.t.Helper()
	return r.gitWith("", args...)
}

// gitWith is git with input on its standard input.
func (r *testRepository) gitWith(input string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada Author", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=1700000000 +0100",
		"GIT_COMMITTER_NAME=Carl Committer", "GIT_COMMITTER_EMAIL=carl@example.org", "GIT_COMMITTER_DATE=1700000000 +0100")
	cmd.Stdin = strings.NewReader(input)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, complaints.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// write writes a file and creates the folders it needs.
func (r *testRepository) write(path, content string) {
	r.t.Helper()
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// symlink replaces the file at path by a symbolic link.
func (r *testRepository) symlink(target, path string) {
	r.t.Helper()
	r.remove(path)
	if err := os.Symlink(target, filepath.Join(r.dir, path)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *testRepository) remove(path string) {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.dir, path)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *testRepository) chmod(path string, mode os.FileMode) {
	r.t.Helper()
	if err := os.Chmod(filepath.Join(r.dir, path), mode); err != nil {
		r.t.Fatal(err)
	}
}

// commit commits all changes in the working tree and returns the commit's id.
func (r *testRepository) commit(message string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

// commitIndex commits only the index.
func (r *testRepository) commitIndex(message string) {
	r.t.Helper()
	r.git("commit", "-q", "--allow-empty", "-m", message)
}

// tree returns the listing of `git ls-tree -r -z HEAD`: mode and object by path.
func (r *testRepository) tree() map[string]string {
	r.t.Helper()
	entries := make(map[string]string)
	if r.git("rev-list", "--all", "--max-count=1") == "" {
		return entries
	}
	for entry := range strings.SplitSeq(r.git("ls-tree", "-r", "-z", "HEAD"), "\x00") {
		if entry == "" {
			continue
		}
		description, path, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(description)
		entries[path] = fields[0] + " " + fields[2]
	}
	return entries
}
