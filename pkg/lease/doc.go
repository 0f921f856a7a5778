// Package lease shows which workers there are, and drains one.
//
// A campaign belongs to one worker at a time, under a lease that expires by the database's clock.
// Workers claim, renew and fence leases by themselves; a program that runs a projector needs no
// call of this package. It reads tidemark.leases and tidemark.workers, and writes only whether a
// worker is drained. All functions are safe for concurrent use.
package lease
