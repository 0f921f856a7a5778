// Package network disturbs the connections between workers and Postgres: slow, cut at any byte,
// closed late, silent, and cut exactly when a commit is acknowledged.
package network
