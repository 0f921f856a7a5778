package migrations_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// selectUnpinned lists functions that read and write values by the caller's settings.
const selectUnpinned = `SELECT p.proname::text AS name, pg_get_functiondef(p.oid) AS source FROM pg_proc p
	WHERE p.pronamespace = 'tidemark'::regnamespace AND p.prokind = 'f'
		AND NOT coalesce(p.proconfig, '{}')::text ~* '(?=.*"?timezone=)(?=.*"?datestyle=)' ORDER BY p.oid`

// conversions find casts between text and time, interval, float or bytea. They cannot see the type of a
// name, so they know the names of our columns and variables.
var conversions = map[string]*regexp.Regexp{ //nolint:gochecknoglobals // constants
	"text as a time": regexp.MustCompile(
		`[)'\w]::(?:timestamptz|timestamp|date|timetz|time|interval|bytea|float[48]|real|double precision)\b`),
	"a record with times": regexp.MustCompile(
		`(?s)(?:to_record|to_recordset)\([^;]*?\b(?:timestamp with time zone|timestamptz|interval|bytea|float8)\b`),
	"a record of a table": regexp.MustCompile(`(?:populate_record|populate_recordset|row_to_json)\(`),
	"a time as text":      regexp.MustCompile(`(?:_at|_until|due|ttl|keep|timestamp\(\)|now\(\))\)?::text\b`),
	"a time in JSON":      regexp.MustCompile(`'\w+'(?:::text)?, (?:\w+\.)?\w*(?:_at|_until|due|ttl)\s*[,)]`),
	"a time in a message": regexp.MustCompile(`RAISE [^;]*', [^;]*\b(?:ttl|\w+_at|\w+_until|p_due)\b[^;]*USING`),
}

// fixed are conversions that no setting changes, and why.
var fixed = map[string]string{ //nolint:gochecknoglobals // constants
	"misfit":           "a time is RFC 3339, which it checks before",
	"append":           "a time is RFC 3339: event_fits",
	"append_rows":      "times are RFC 3339: check_types",
	"append_plain":     "times are RFC 3339: types_fit",
	"appended_before":  "times are RFC 3339: check_types",
	"check_repeat":     "times are RFC 3339: check_types",
	"erase_scheduled":  "times are RFC 3339: check_types",
	"put_back":         "the lines have the formats of archive_lines, which their hash proves",
	"reschedule":       "its message has a time without a zone as JSON, which is ISO",
	"sample_pages":     "it casts a number",
	"reader_lag":       "it casts a number",
	"lease_ends":       "it casts -infinity",
	"lock_exclusively": "lock_timeout has a number and a unit",
}

// literal finds a string and whether it has escapes whatever standard_conforming_strings is.
var literal = regexp.MustCompile(`(E?)'((?:[^'\\]|\\.|'')*)'`)

func TestFunctionsThatConvertTimesPinTheFormats(t *testing.T) {
	t.Parallel()
	rows, err := connect(t, pgtest.URL(t)).Query(t.Context(), selectUnpinned)
	must(t, err)
	type function struct{ Name, Source string }
	functions, err := pgx.CollectRows(rows, pgx.RowToStructByName[function])
	must(t, err)
	comment := regexp.MustCompile(`(?m)--.*$`)
	harmless := regexp.MustCompile(`NULL::|\d::|'(?:epoch|second)', `)
	left := map[string]bool{}
	for _, f := range functions {
		source := harmless.ReplaceAllString(comment.ReplaceAllString(f.Source, ""), "")
		for _, text := range literal.FindAllStringSubmatch(source, -1) {
			if text[1] == "" && strings.Contains(text[2], `\`) {
				t.Errorf("%s has the string %.120q: with standard_conforming_strings off it is another", f.Name, text[0])
			}
		}
		for what, pattern := range conversions {
			found := pattern.FindString(source)
			if found == "" {
				continue
			}
			if fixed[f.Name] != "" {
				left[f.Name] = true
				continue
			}
			t.Errorf("%s has %s, %.120q: SET timezone and datestyle, or say why no setting changes it", f.Name, what, found)
		}
	}
	for name := range fixed {
		if !left[name] {
			t.Errorf("%s converts nothing any more", name)
		}
	}
}

// The goose tool and psql run the files in sessions of any settings.
func TestTheFilesMeanTheSameInEachSession(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	must(t, err)
	comment := regexp.MustCompile(`(?m)--.*$`)
	for _, name := range names {
		content, err := fs.ReadFile(migrations.FS, name)
		must(t, err)
		text := comment.ReplaceAllString(string(content), "")
		for _, found := range literal.FindAllStringSubmatch(text, -1) {
			if found[1] == "" && strings.Contains(found[2], `\`) {
				t.Errorf("%s has the string %.120q: with standard_conforming_strings off it is another", name, found[0])
			}
		}
		beyond := strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
		if beyond && !strings.Contains(text, "SET LOCAL client_encoding = 'UTF8';") {
			t.Errorf("%s has letters beyond ASCII: SET LOCAL client_encoding = 'UTF8' first", name)
		}
	}
}
