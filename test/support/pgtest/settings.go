package pgtest

import (
	"os"

	"github.com/tidemark-go/tidemark/internal/testdb"
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

// searchPath is that of tests: they read and write the tables of projections without naming their schema.
const searchPath = "tidemark_views, public"

// kind is that of all test databases.
func kind() testdb.Kind {
	return testdb.Kind{Settings: hostile(), Schema: [][2]string{{"search_path", searchPath}}}
}
