// Package fencing checks recorded histories of leases for linearizability. Whatever holders
// believe, a lease is a register that only the current generation can write.
package fencing
