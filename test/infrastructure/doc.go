// Package infrastructure takes from workers, one by one, the things that they need from their
// server: connections, disk space, permission to write, locks, backends, and the server itself.
// None of that may cost an event an attempt, and everything is applied once it is back.
//
// A full disk is simulated by replacing a table's file with a link to /dev/full, which answers
// every write with "no space left on device". That is the kernel's own error, which Postgres
// reports as 53100, as for a full file system. It needs no mount and no privileges.
package infrastructure
