// Package model drives Tidemark in random order (appends, failures, repairs, operators' acts,
// pauses, workers that die or are overtaken) and holds the database against a model in Go after
// every step: what DESIGN.md promises, campaign by campaign and pair by pair.
package model
