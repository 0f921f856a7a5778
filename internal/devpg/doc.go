// Package devpg runs a private Postgres for development and tests. [Open] finds the binaries, creates
// and starts a cluster, and returns a server with its URL. [Server.Close] stops it when no other
// process uses it.
//
// # Where things are
//
// All state lives in one folder, by default .tidemark in the checkout (see [DefaultDir]):
//
//	pg            the cluster, or a symbolic link to it if other users cannot pass through root's folder
//	postgres.log  the server's output since its last start
//	port          the port of the last start, used again if it is free
//	lock          locked exclusively by the process that creates, starts or stops the cluster
//	users         locked shared by every process that uses the server
//
// The locks are flock(2) locks, so the kernel releases those of a killed process. The server outlives
// that process. The next [Open] adopts it, and the last process that closes it stops it.
//
// # Which Postgres
//
// [Open] uses an installed Postgres: of TIDEMARK_POSTGRES_BIN, PATH, Debian's packages or Homebrew. If
// there is none, [Config.Install] may bring one; package embedded downloads it. What it brought stays in
// the user's cache folder, where all programs find it.
//
// # Guarantees
//
// Data is kept between runs. The server listens only on 127.0.0.1, without a password and without a
// Unix socket: it trusts all local users of the machine. A process may be killed at any time: a
// partial cluster is removed, a stale postmaster.pid is recognised, an orphaned server is found again.
//
// Postgres refuses to run as root. Started by root, it runs as the user postgres, else nobody, else
// with ID 65534.
//
// A [Server] is safe for concurrent use. It runs no goroutine.
package devpg
