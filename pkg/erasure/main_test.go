package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// childEnv turns the test binary into a worker or an operator: "work URL" or "erase URL SUBJECT…".
const childEnv = "TIDEMARK_TEST_ERASURE"

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(childEnv))
	if len(words) == 0 {
		pgtest.Main(m)
		return
	}
	if err := child(context.Background(), words[0], words[1], words[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(ctx context.Context, does, url string, subjects []string) error {
	pool, err := pgxpool.New(ctx, pgtest.UTF8(url))
	if err != nil {
		return err
	}
	defer pool.Close()
	if does == "work" {
		p, err := projectorOf(pool, catalogueOf())
		if err != nil {
			return err
		}
		return p.Run(ctx)
	}
	_, err = erasure.Erase(ctx, pool, erasure.Request{
		Subjects: subjects, Catalogue: catalogueOf(), By: "anna", Reason: "a test",
	})
	if errors.Is(err, erasure.ErrNothing) { // an earlier one was killed after its end
		err = nil
	}
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
