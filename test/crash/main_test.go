package crash_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
	"github.com/tidemark-go/tidemark/test/support/worker"
)

func TestMain(m *testing.M) { worker.Main(m, questions()) }

const group = "default"

// prepared returns a database with both projections registered and five events in each campaign.
func prepared(t *testing.T, campaigns ...string) (pool *pgxpool.Pool, url string) {
	t.Helper()
	pool = pgtest.New(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: tally.Both()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, campaign := range campaigns {
		tally.Append(t, pool, campaign, 1, 2, 3, 4, 5)
	}
	return pool, pool.Config().ConnString()
}

// standard configures a worker with short leases and a poll interval longer than any test.
func standard(url, name string) worker.Config {
	return worker.Config{URL: url, Name: name, LeaseTTL: time.Second, PollInterval: time.Hour, GroupEvents: 1000}
}
