// Package infrastructure takes from workers, one by one, what they need of their server:
// connections, room on its disk, leave to write, locks, backends, the server itself. None of that
// may cost an event an attempt, and everything is applied once it is back.
//
// The disk is full in that the file of a table is a link to /dev/full, which answers every write
// with "no space left on device": the kernel's own error, from which Postgres makes its 53100 as it
// does for a file system without room. It needs no file system to be mounted, and no privileges.
package infrastructure
