package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/internal/testdb"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

// Main runs a package's tests, keeps the server running for all of them, and fails the run if a
// goroutine outlives them:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// The options list goroutines of other packages that may stay.
func Main(m *testing.M, options ...goleak.Option) {
	ctx, cancel := context.WithTimeout(context.Background(), testdb.SetupTimeout)
	_, closeServer, err := testdb.Shared(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	ctx, cancel = context.WithTimeout(context.Background(), testdb.SetupTimeout)
	testdb.Close(ctx) // pgx reads in a goroutine from a connection whose last write was slow
	cancel()
	code = leaktest.Check(code, options...)
	if err := closeServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
