// Package demo shows the whole system working, on a real database, with real processes: it starts
// three workers that keep the tabletop read models, appends at a steady rate, kills one of the
// workers halfway, and in the end compares every row with a fold of the journal.
//
// [Run] starts what it needs and stops it again; only the data stays. It may run again and again on
// the same database, where it verifies the events of former runs too and counts its own.
package demo
