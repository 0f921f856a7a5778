// Package migrations holds the schema "tidemark" as goose migrations and applies them.
//
// The files work unchanged with the goose command line tool; [Up] applies the same files from a program.
package migrations

import "embed"

// FS holds the migrations, NNNNN_name.sql, in goose's format.
//
//go:embed *.sql
var FS embed.FS
