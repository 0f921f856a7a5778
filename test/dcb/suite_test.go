package dcb_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/boundary"
)

// writers is the number of the oracle's writers. Each has a connection.
const writers = 20

func TestOracleAllowsWhatWasAllowed(t *testing.T) {
	t.Parallel()
	boundary.Oracle(t, boundary.Journal{Pool: open(t, writers), Wild: true})
}

func TestOracleASingleWriterIsRefusedWhatItShouldBeAndNothingElse(t *testing.T) {
	t.Parallel()
	boundary.SingleWriter(t, boundary.Journal{Pool: open(t, 2), Wild: true})
}

func TestARegisterOfConditionsIsLinearizable(t *testing.T) {
	t.Parallel()
	pool := open(t, 8)
	slow := begin(t, pool, pgx.ReadCommitted) // another, slow append to the same tag
	write(t, slow, newEvent("slow", "noted", "all"))
	boundary.Register(t, boundary.Journal{Pool: pool}, nil)
	commit(t, slow)
}

func TestARegisterIsLinearizableWhileBackendsAreKilled(t *testing.T) {
	t.Parallel()
	pool := open(t, 8)
	boundary.Register(t, boundary.Journal{Pool: pool}, func(ctx context.Context) { boundary.Kill(ctx, pool) })
}
