// Package model drives Tidemark with random steps (appends, failures, repairs, acts of operators,
// pauses, workers that die or are overtaken). After every step it compares the database with a
// model in Go, for each campaign and each projection.
package model
