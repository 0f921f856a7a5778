// Package pgtest gives each test a Postgres database of its own, cloned from a template that is
// migrated once.
//
// The server is the one that TIDEMARK_TEST_DATABASE_URL names (its user must be allowed to create
// databases), else a private one under .tidemark/test that all test binaries share. Where there is
// none, tests fail: a skipped test proves nothing.
//
// The private server runs without fsync, in memory where there is enough, and is stopped when the
// last user closes it. [Main] keeps it for all tests of a package; without Main, it stops whenever
// no test uses it.
package pgtest
