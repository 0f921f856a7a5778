// Package tidemarktest is for a program's tests with a database: it gives each test a migrated database of its
// own, and applies projections to what was appended.
//
//	func TestAnOrderIsShown(t *testing.T) {
//		pool := tidemarktest.New(t)
//		if _, err := placeOrder(t.Context(), pool, uuid.New(), Placed{Customer: "Ann"}); err != nil {
//			t.Fatal(err)
//		}
//		tidemarktest.Apply(t, projector.Config{Pool: pool, Projections: []projection.Projection{orders()}})
//		order, found, err := orders().Get(t.Context(), pool, "order-1")
//		…
//	}
//
// The server is the one that TIDEMARK_TEST_DATABASE_URL names, by a role that may create databases. Without it, a
// private Postgres runs under .tidemark/test beside the module's go.mod or .git, for all tests that need one at a
// time: an installed one, or that of TIDEMARK_POSTGRES_BIN. It does not survive a crash of the machine. Without a
// server tests fail.
//
// Databases are clones of a template that is migrated once for each version of the schema. They are dropped when
// their test ends; those of killed tests an hour later, by the next test that makes a template.
//
// Package given tests decisions, documents and processes without a database, and package projectiontest whether a
// projection can be rebuilt and shared among workers.
//
// Stability: as of version 1, functions are added and none changes its meaning.
package tidemarktest
