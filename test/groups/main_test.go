package groups_test

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

func TestMain(m *testing.M) { worker.Main(m) }

const group = "default"

// start starts a worker of a consumer group with its own pool. stop stops it.
func start(t *testing.T, url, consumerGroup string, projections ...projection.Projection) (stop func()) {
	t.Helper()
	return tally.Run(t, projector.Config{
		Pool: tally.Pool(t, url, consumerGroup, 6), ConsumerGroup: consumerGroup, Projections: projections,
		LeaseTTL: time.Second, PollInterval: 100 * time.Millisecond, Concurrency: 3,
	})
}
