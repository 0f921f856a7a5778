package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// A rollback waits for the worker that runs it, and has the same result.
func TestARollbackWaitsForAWorker(t *testing.T) {
	t.Parallel()
	filled := exchanged(t)
	poolOf(t, filled).Close() // a database with connections cannot be copied
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, url string)
		code      int
		says      []string
	}{
		"one starts": {operate, cli.ExitOK, []string{
			"No worker is running", "Operation 1 is done: 1 done",
		}},
		"it is aborted": {func(t *testing.T, url string) {
			t.Helper()
			if got := execute(t, url, false, "operation abort 1 --by ben --reason no"); got.code != cli.ExitOK {
				t.Errorf("the abort ends with %d: %s", got.code, got.err)
			}
		}, cli.ExitConflict, []string{"ben has aborted operation 1", "try: tidemark operation show 1"}},
		"it is not possible any more": {func(t *testing.T, url string) {
			t.Helper()
			if got := execute(t, url, false, "projection rebuild counted"); got.code != cli.ExitOK {
				t.Errorf("the rebuild ends with %d: %s", got.code, got.err)
			}
			operate(t, url)
		}, cli.ExitFailed, []string{"the projection is being rebuilt", "try: tidemark operation show 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := share(t, pgtest.Copy(t, filled))
			ended := make(chan result, 1)
			go func() { ended <- execute(t, url, false, "projection rollback counted --yes --wait") }()
			await(t, poolOf(t, url), `SELECT EXISTS (SELECT FROM tidemark.operations WHERE kind = 'rollback')`)
			c.meanwhile(t, url)
			got := <-ended
			if got.code != c.code {
				t.Errorf("it ends with %d: %s", got.code, got.err)
			}
			for _, want := range c.says {
				if !strings.Contains(got.err, want) {
					t.Errorf("it says %q, not %q", got.err, want)
				}
			}
		})
	}
}
