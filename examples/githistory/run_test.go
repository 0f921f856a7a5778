package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// lastLine runs githistory on a repository and returns the last line it prints.
func lastLine(t failer, pool *pgxpool.Pool, o options) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), pool, o, &stdout, &stderr); err != nil {
		t.Fatalf("run: %v\n%s", err, stdout.String())
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	return lines[len(lines)-1]
}

func requireSame(t failer, pool *pgxpool.Pool, r *testRepository, depth int) {
	t.Helper()
	n := len(r.tree())
	want := fmt.Sprintf("files in table %d, in git %d, differences 0", n, n)
	if got := lastLine(t, pool, options{dir: r.dir, depth: depth}); got != want {
		t.Errorf("the last line is %q, want %q", got, want)
	}
}

// countEvents counts the events in the journal.
func countEvents(t failer, pool *pgxpool.Pool) int64 {
	t.Helper()
	return query[int64](t, pool, "SELECT count(*) FROM tidemark.journal")
}

func query[T any](t failer, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// furnish commits one of everything to a repository.
func furnish(r *testRepository) {
	for i, path := range oddPaths() {
		r.write(path, fmt.Sprintf("odd file %d\n", i))
	}
	r.write("src/main.go", strings.Repeat("package main\n", 20))
	r.write("src/run.sh", "#!/bin/sh\n")
	first := r.commit("one of everything")
	r.chmod(filepath.Join("src", "run.sh"), 0o755)
	r.symlink("src/main.go", "link")
	r.git("add", "-A")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+first+",vendor/lib")
	r.commitIndex("modes and kinds")
	r.git("checkout", "-q", "-b", "side")
	r.git("mv", "src/main.go", "cmd.go")
	r.commitIndex("across campaigns")
	r.git("checkout", "-q", "main")
	r.git("rm", "-q", "src/run.sh")
	r.commitIndex("one less")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	r.symlink("../cmd.go", "latin1-\xe9")
	r.git("add", "latin1-\xe9")
	r.commitIndex("a link with an odd name")
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("ends with the tree that git lists, at any depth", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		r := newTestRepository(t)
		furnish(r)
		for depth := range 4 {
			requireSame(t, pool, r, depth)
		}
	})

	t.Run("appends nothing the second time, and later what is new", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		r := newTestRepository(t)
		furnish(r)
		requireSame(t, pool, r, 1)
		before := countEvents(t, pool)
		requireSame(t, pool, r, 1)
		if after := countEvents(t, pool); after != before {
			t.Errorf("the second run appended %d events", after-before)
		}
		r.write("new", "file\n")
		r.git("add", "new")
		r.commitIndex("more")
		requireSame(t, pool, r, 1)
		if after := countEvents(t, pool); after != before+2 {
			t.Errorf("a commit with one new file made %d events, want the file's and how far the history is read", after-before)
		}
	})

	t.Run("spreads many folders over transactions", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		r := newTestRepository(t)
		for part := range 3 {
			for folder := range 450 {
				r.write(fmt.Sprintf("%d/%d/file", part, folder), "text\n")
			}
			r.commit("some folders")
		}
		requireSame(t, pool, r, 2)
		for folder := range 1001 {
			r.write(fmt.Sprintf("more/%d/file", folder), "text\n")
		}
		r.commit("too many folders")
		err := run(t.Context(), pool, options{dir: r.dir, depth: 2}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "changes files in 1001 folders or more: use a smaller -depth") {
			t.Errorf("a commit of too many folders: %v", err)
		}
		requireSame(t, pool, r, 1)
	})

	t.Run("follows HEAD to another branch and back", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		r := newTestRepository(t)
		furnish(r)
		requireSame(t, pool, r, 1)
		for range 2 {
			r.git("reset", "-q", "--hard", "side")
			requireSame(t, pool, r, 1)
			r.git("reset", "-q", "--hard", "HEAD@{1}")
			requireSame(t, pool, r, 1)
		}
	})

	t.Run("keeps repositories and the rest of the journal apart", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "somebody else's", journal.Any, event.Event{
				Type: fileAdded, Payload: []byte(`{"path": "x", "mode": "100644", "object": "0", "kind": "file"}`),
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := newTestRepository(t)
			furnish(r)
			requireSame(t, pool, r, 1)
		}
	})

	t.Run("reads a repository without commits", func(t *testing.T) {
		t.Parallel()
		requireSame(t, pgtest.New(t), newTestRepository(t), 1)
	})

	t.Run("reads a bare repository from a folder with spaces", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		furnish(r)
		bare := &testRepository{t: t, dir: filepath.Join(t.TempDir(), "a bare: one.git")}
		r.git("clone", "-q", "--bare", r.dir, bare.dir)
		requireSame(t, pgtest.New(t), bare, 1)
	})

	t.Run("takes paths longer than an index entry", func(t *testing.T) {
		t.Parallel()
		r := newTestRepository(t)
		var long strings.Builder
		for i := range 1200 {
			fmt.Fprintf(&long, "%x/", i*i*7919)
		}
		blob := r.gitWith("text", "hash-object", "-w", "--stdin")
		for _, name := range []string{"a", "b"} {
			r.git("update-index", "--add", "--cacheinfo", "100644,"+blob+","+long.String()+name)
		}
		r.commitIndex("deep")
		requireSame(t, pgtest.New(t), r, 1)
	})

	t.Run("lists what differs and fails", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		r := newTestRepository(t)
		r.write("a/one", "1")
		r.write("a/two", "2")
		r.commit("files")
		requireSame(t, pool, r, 1)
		for _, sql := range []string{
			"DELETE FROM git_tree WHERE path = 'a/one'",
			"UPDATE git_tree SET mode = '100755' WHERE path = 'a/two'",
			"INSERT INTO git_tree SELECT campaign_id, 'a/three', mode, object, kind FROM git_tree",
		} {
			if _, err := pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), pool, options{dir: r.dir, depth: 1}, &stdout, &stderr); !errors.Is(err, errDifferences) {
			t.Errorf("the run answered %v, want %v", err, errDifferences)
		}
		lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
		if got, want := lines[len(lines)-1], "files in table 2, in git 2, differences 3"; got != want || len(lines) != 4 {
			t.Errorf("printed:\n%swant three differences and %q", stdout.String(), want)
		}
	})

	t.Run("names the commit that is gone", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		r := newTestRepository(t)
		r.write("a", "1")
		r.commit("first")
		r.write("a", "2")
		gone := r.commit("second")
		requireSame(t, pool, r, 1)
		r.git("reset", "-q", "--hard", "HEAD~1")
		r.git("reflog", "expire", "--expire=now", "--all")
		r.git("gc", "-q", "--prune=now")
		var out bytes.Buffer
		err := run(t.Context(), pool, options{dir: r.dir, depth: 1}, &out, &out)
		if err == nil || !strings.Contains(err.Error(), gone) || !strings.Contains(err.Error(), "-name") {
			t.Errorf("the run answered %v, want it to name %s and -name", err, gone)
		}
		want := "files in table 1, in git 1, differences 0"
		if got := lastLine(t, pool, options{dir: r.dir, depth: 1, name: "afresh"}); got != want {
			t.Errorf("under another name the last line is %q, want %q", got, want)
		}
	})

	t.Run("refuses a folder that is no repository", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		var out bytes.Buffer
		if err := run(t.Context(), pgtest.New(t), options{dir: dir, depth: 1}, &out, &out); err == nil ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("the run answered %v, want an error that names %s", err, dir)
		}
	})
}

func TestRunAfterAKillGoesOnWithoutDuplicates(t *testing.T) {
	t.Parallel()
	const commits, files = 120, 150 // several transactions
	r := newTestRepository(t)
	var stream strings.Builder
	for c := range commits {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter Ada <ada@example.org> %d +0000\ndata 0\n", c)
		for f := range files {
			fmt.Fprintf(&stream, "M 100644 inline d%d/f%d\ndata <<END\n%d\nEND\n", f%7, f, c)
		}
	}
	r.gitWith(stream.String(), "fast-import", "--quiet")

	url := pgtest.UTF8(pgtest.URL(t))
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for killed := range 2 {
		program := exec.CommandContext(t.Context(), self, "-repo", r.dir)
		program.Env = append(os.Environ(), asProgram+"=1", "TIDEMARK_DATABASE_URL="+url)
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- program.Wait() }()
		for before := countEvents(t, pool); countEvents(t, pool) == before; {
			select {
			case err := <-exited:
				t.Fatalf("run %d ended before it was killed: %v", killed, err)
			default:
			}
		}
		if err := program.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-exited; err == nil {
			t.Fatalf("run %d was not killed", killed)
		}
		if n := countEvents(t, pool); n >= commits*files {
			t.Fatalf("%d events were appended before kill number %d: it came too late to show anything", n, killed)
		}
	}
	requireSame(t, pool, r, 1)
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal WHERE event_type <> $1",
		historyRead); n != commits*files {
		t.Errorf("the journal holds %d events, want %d", n, commits*files)
	}
	disorder := query[int64](t, pool, `SELECT count(*) FROM (
		SELECT occurred_at < lag(occurred_at) OVER (PARTITION BY campaign_id ORDER BY seq) AS earlier FROM tidemark.journal
			WHERE event_type <> $1
	) AS j WHERE earlier`, historyRead)
	if disorder != 0 {
		t.Errorf("%d events stand after one of a later commit", disorder)
	}
}

func TestTwoRunsAtOnceAppendWhatOneWould(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r := newTestRepository(t)
	furnish(r)
	ended := make(chan error)
	for range 2 {
		go func() {
			var out bytes.Buffer
			ended <- run(t.Context(), pool, options{dir: r.dir, depth: 1}, &out, &out)
		}()
	}
	for range 2 {
		// The second run may be refused, or may see the table before the first has filled it.
		if err := <-ended; err != nil && !errors.Is(err, journal.ErrVersionConflict) &&
			!errors.Is(err, journal.ErrPartlyAppended) && !errors.Is(err, errDifferences) {
			t.Error(err)
		}
	}
	requireSame(t, pool, r, 1)
	once := pgtest.New(t)
	requireSame(t, once, r, 1)
	if got, want := countEvents(t, pool), countEvents(t, once); got != want {
		t.Errorf("two runs appended %d events, one appends %d", got, want)
	}
}

func TestRunOnExamplesOfAnyRepositoryFindsNoDifferences(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	streams := rapid.Custom(func(rt *rapid.T) string { return randomHistory(rt, 1, 12) })
	for seed := range 16 {
		r := newTestRepository(t)
		r.gitWith(streams.Example(seed), "fast-import", "--quiet")
		requireSame(t, pool, r, seed%4)
	}
}
