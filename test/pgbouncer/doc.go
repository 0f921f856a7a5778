// Package pgbouncer runs writers and workers behind a PgBouncer in transaction mode, where LISTEN,
// session locks and prepared statements do not work.
package pgbouncer
