// Package network spoils the connections between workers and Postgres: slow, cut at any byte,
// closed late, silent, and cut just when a commit is answered.
package network
