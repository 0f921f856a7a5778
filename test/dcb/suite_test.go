package dcb_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/boundary"
)

// writers is how many of the oracle's have a connection at once: all.
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
	slow := begin(t, pool, pgx.ReadCommitted) // somebody else appends to the same tag meanwhile, slowly
	write(t, slow, event("slow", "noted", "all"))
	boundary.Register(t, boundary.Journal{Pool: pool}, nil)
	commit(t, slow)
}

func TestARegisterIsLinearizableWhileBackendsAreKilled(t *testing.T) {
	t.Parallel()
	pool := open(t, 8)
	boundary.Register(t, boundary.Journal{Pool: pool}, func(ctx context.Context) { boundary.Kill(ctx, pool) })
}
