// Package testdb makes databases for tests, cloned from a template that is migrated once.
//
// The server is the one that TIDEMARK_TEST_DATABASE_URL names (its user must be allowed to create
// databases), or else a private one under .tidemark/test that all test binaries share. It runs without
// fsync, in memory if there is enough, and stops when its last user closes it.
//
// Databases of killed runs are dropped after an hour, templates of other schemas after a day.
package testdb
