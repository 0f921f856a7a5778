package pgtest

import (
	"context"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

// defaultsEnv leaves databases with the server's own settings if it is 1.
const defaultsEnv = "TIDEMARK_TEST_DEFAULTS"

// hostile are settings with which SQL reads and writes text in other formats than on most servers. A
// test's database and its template have them, because a user's database may.
func hostile() [][2]string {
	if os.Getenv(defaultsEnv) == "1" {
		return nil
	}
	return [][2]string{
		{"TimeZone", "'Pacific/Chatham'"},
		{"DateStyle", "SQL, DMY"},
		{"IntervalStyle", "sql_standard"},
		{"bytea_output", "escape"},
		{"client_encoding", "LATIN1"},
		{"standard_conforming_strings", "off"},
		{"extra_float_digits", "-15"},
	}
}

// set gives a database the hostile settings. A clone does not have those of its template.
func set(ctx context.Context, admin *pgx.Conn, name string, more ...[2]string) error {
	var statements []string
	for _, setting := range append(hostile(), more...) {
		statements = append(statements, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" SET "+
			setting[0]+" = "+setting[1])
	}
	return admin.PgConn().Exec(ctx, strings.Join(statements, ";")).Close()
}
