package migrate

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWait(t *testing.T) {
	t.Parallel()
	t.Run("ends when another has migrated", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Empty(t)
		done := make(chan error, 1)
		go func() {
			_, err := run(t, "wait", "--database-url="+url, "--timeout=1m")
			done <- err
		}()
		mustRun(t, "up", "--database-url="+url)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("gives up in time, and says what is missing", func(t *testing.T) {
		t.Parallel()
		out, err := run(t, "wait", "--database-url="+pgtest.Empty(t), "--timeout=5s")
		if err == nil || !strings.Contains(err.Error(), "tidemark migrate up") {
			t.Errorf("it answers %v\n%s", err, out)
		}
	})
}
