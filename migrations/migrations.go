// Package migrations holds the schema "tidemark" as goose migrations and applies them.
//
// The files work unchanged with the goose command line tool, and so does its version table,
// goose_db_version: a database migrated by one can be continued by the other. [Up] applies the same
// files from a program.
//
// Migrations need a direct connection: they hold a session advisory lock so that two of them never
// run at once, and PgBouncer in transaction mode gives each transaction another session. Everything
// else of Tidemark works through it.
package migrations

import "embed"

// FS holds the migrations, NNNNN_name.sql, in goose's format.
//
//go:embed *.sql
var FS embed.FS
