// Package projector keeps read models up to date with the journal.
package projector
