// Package demo shows the whole system at work on a real database with real processes. It starts
// three workers that keep the tabletop read models, appends at a steady rate, kills one worker
// halfway, and at the end compares every row with a fold of the journal.
//
// [Run] stops everything it started; only the data stays. It may run repeatedly on one database: it
// then verifies the events of earlier runs too, but counts only its own.
package demo
