package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const group = "default"

// startWorkers starts workers, each with its own pool.
func startWorkers(t *testing.T, url string, n int) {
	t.Helper()
	for i := range n {
		tally.Run(t, projector.Config{
			Pool: tally.Pool(t, url, fmt.Sprintf("worker-%d", i), 6), Projections: tally.Both(), LeaseTTL: time.Second,
			PollInterval: 100 * time.Millisecond, Concurrency: 3,
		})
	}
}
