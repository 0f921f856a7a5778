// Package migrations holds the schema "tidemark" as goose migrations and applies them.
//
// The files work unchanged with the goose command line tool and share its version table,
// goose_db_version: one can continue a database that the other migrated. [Up] applies the same
// files from a program.
//
// The functions of the schema stand in functions/, a file for each subject, with their triggers,
// comments and rights. 00006_functions.sql is generated from them.
//
// Migrations need a direct connection. They hold a session advisory lock so that two never run at
// once, and PgBouncer in transaction mode gives each transaction another session. The rest of
// Tidemark works through PgBouncer.
package migrations

import "embed"

//go:generate go run ./internal/functions

// FS holds the migrations, NNNNN_name.sql, in goose's format.
//
//go:embed *.sql
var FS embed.FS
