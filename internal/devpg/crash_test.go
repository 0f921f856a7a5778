package devpg_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

func mustExec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// pidFile returns the path and the lines of the cluster's postmaster.pid.
func pidFile(t *testing.T, dir string) (path string, lines []string) {
	t.Helper()
	path = filepath.Join(dir, "pg", "postmaster.pid")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, strings.Split(string(content), "\n")
}

func TestAnOrphanedServerIsAdoptedAfterItsParentWasKilled(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	parent := startHolder(t, dir)
	url := parent.url(t)
	mustExec(t, url, "CREATE TABLE kept AS SELECT 'still here' AS word")
	parent.kill(t)
	_, before := pidFile(t, dir)

	server := open(t, quick(dir))
	if got := query(t, server.URL(), readTable); got != "still here" {
		t.Errorf("the table reads %q", got)
	}
	if _, after := pidFile(t, dir); before[0] != after[0] || server.URL() != url {
		t.Errorf("process %s at %s was replaced by %s at %s", before[0], url, after[0], server.URL())
	}
	closeServer(t, server)
	if !gone(t, url) {
		t.Error("nobody stops the adopted server")
	}
}

func TestAStalePidFileIsRecognised(t *testing.T) {
	t.Parallel()
	for name, pid := range map[string]func(old string) string{
		"whose process is gone":                      func(old string) string { return old },
		"whose number belongs to another program":    func(string) string { return strconv.Itoa(os.Getpid()) },
		"that holds no number":                       func(string) string { return "" },
		"whose number belongs to another Postgres's": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := stateFolder(t)
			server := open(t, quick(dir))
			mustExec(t, server.URL(), "CREATE TABLE kept AS SELECT 'still here' AS word")
			mustExec(t, server.URL(), "CHECKPOINT")
			path, lines := pidFile(t, dir)
			killPostmaster(t, lines[0], server.URL())
			if pid == nil {
				other := stateFolder(t)
				open(t, quick(other))
				_, theirs := pidFile(t, other)
				pid = func(string) string { return theirs[0] }
			}
			lines[0] = pid(lines[0])
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := query(t, server.URL(), readTable); got != "still here" {
				t.Errorf("the table reads %q", got)
			}
		})
	}
}

// killPostmaster kills the server with SIGKILL and leaves its pid file.
func killPostmaster(t *testing.T, pid, url string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the killed server is gone", func() bool { return gone(t, url) })
}

func TestProcessesThatRaceToOpenShareOneServer(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	racers := make([]*holder, 4)
	for i := range racers {
		racers[i] = startHolder(t, dir)
	}
	urls := map[string]int{}
	for _, racer := range racers {
		urls[racer.url(t)]++
	}
	if len(urls) != 1 {
		t.Errorf("the processes use several servers: %v", urls)
	}
	for _, racer := range racers {
		racer.leave(t)
	}
	for url := range urls {
		if !gone(t, url) {
			t.Errorf("the server at %s runs on after all processes left", url)
		}
	}
}

func TestAHalfMadeClusterIsThrownAway(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	first := startHolder(t, dir)
	halfMade := func() []string {
		found, err := filepath.Glob(filepath.Join(clusterHome(dir), "pg.making-*", "base"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	eventually(t, "initdb has begun", func() bool { return len(halfMade()) > 0 })
	first.kill(t)
	server := open(t, quick(dir))
	query(t, server.URL(), "SELECT 'runs'")
}

// clusterHome returns the folder that holds the cluster. It can lie outside the state folder.
func clusterHome(dir string) string {
	if target, err := os.Readlink(filepath.Join(dir, "pg")); err == nil {
		return filepath.Dir(target)
	}
	return dir
}

func TestAnAbandonedPrivateServerIsRemovedByTheNextOne(t *testing.T) {
	t.Parallel()
	abandoned := startHolder(t, "private")
	url := abandoned.url(t)
	data := query(t, url, "SHOW data_directory")
	abandoned.kill(t)
	open(t, devpg.Config{Private: true, Settings: quick("").Settings})
	eventually(t, "the abandoned server's folder is gone", func() bool {
		_, err := os.Stat(data)
		return os.IsNotExist(err)
	})
	if !gone(t, url) {
		t.Error("the abandoned server still runs")
	}
}
