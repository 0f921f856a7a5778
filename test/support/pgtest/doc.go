// Package pgtest gives each test its own Postgres database, of package testdb, with settings that a user's
// database may have.
// Without a server tests fail: a skipped test proves nothing. [Main] keeps the private server running for all
// tests of a package. Without Main it stops whenever no test uses it.
package pgtest
