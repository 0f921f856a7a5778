package archive_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// childEnv turns the test binary into an operator: "archive URL FOLDER", "restore URL FOLDER", or "full URL
// FOLDER", which archives and can write no file of more than 1,000 bytes.
const childEnv = "TIDEMARK_TEST_ARCHIVE"

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(childEnv))
	if len(words) == 0 {
		pgtest.Main(m)
		return
	}
	if err := child(context.Background(), words[0], words[1], words[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(ctx context.Context, does, url, folder string) error {
	pool, err := pgxpool.New(ctx, pgtest.UTF8(url))
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := archive.NewFolder(folder)
	if err != nil {
		return err
	}
	if does == "full" {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1000}); err != nil {
			return err
		}
	}
	if does != "restore" {
		_, err = archive.Run(ctx, pool, store, closed)
		return err
	}
	_, err = archive.Restore(ctx, pool, store, archive.RestoreRequest{All: true})
	return err
}

// start starts a child, which is killed at the end of the test.
func start(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+strings.Join(words, " "))
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it may have been waited for
	})
	return c
}
