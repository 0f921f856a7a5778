// Package pgtest gives each test its own Postgres database, cloned from a template that is migrated
// once.
//
// The server is the one that TIDEMARK_TEST_DATABASE_URL names (its user must be allowed to create
// databases), or else a private one under .tidemark/test that all test binaries share. Without a
// server tests fail: a skipped test proves nothing.
//
// The private server runs without fsync, in memory if there is enough, and stops when its last user
// closes it. [Main] keeps it running for all tests of a package. Without Main it stops whenever no
// test uses it.
package pgtest
