// Package devpg is the private Postgres of a fresh machine: [Open] finds the binaries, makes a
// cluster, starts it and answers a URL; [Server.Close] stops it again when no other process uses it.
//
// # Where things are
//
// All state lives in one folder, by default .tidemark in the checkout (see [DefaultDir]):
//
//	pg            the cluster; a symbolic link where root has started it, in a folder that others may not reach
//	postgres.log  what the server has said since its last start
//	port          the port of the last start, taken again when it is free
//	lock          held exclusively by the process that makes, starts or stops the cluster
//	users         held shared by every process that uses the server
//
// The locks are flock(2) locks, so a process that is killed gives them back. The server itself
// outlives such a process; the next [Open] adopts it, and the last one to close it stops it.
//
// # Guarantees
//
// Data is kept between runs. The server listens on 127.0.0.1 alone, without a password and without
// a Unix socket: it is for development and tests, on a machine whose local users are trusted. A
// process may be killed at any point: a half-made cluster is thrown away, a stale postmaster.pid is
// recognised, an orphaned server is found again.
//
// Postgres refuses to run as root. Started by root, it runs as postgres or as nobody, whichever exists.
//
// A [Server] is safe for concurrent use. It runs no goroutine.
package devpg
