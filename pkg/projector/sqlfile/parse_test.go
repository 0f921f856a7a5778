package sqlfile

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sessionsHead is the start of a valid file: seven lines with a table.
const sessionsHead = `-- projection: sessions
-- version: 1
CREATE TABLE sessions (
    campaign_id text,
    note        text,
    PRIMARY KEY (campaign_id)
);
`

func TestLoadReadsNameVersionTypesAndTables(t *testing.T) {
	t.Parallel()
	projection, err := loadText(sessionsHead + `
CREATE INDEX ON sessions (note);
-- on: session_started
INSERT INTO sessions (campaign_id) VALUES (event.campaign_id);
-- ON : session_ended ,session_aborted
DELETE FROM sessions; UPDATE sessions SET note = 'a;b'
`)
	if err != nil {
		t.Fatal(err)
	}
	spec := projection.Spec()
	if spec.Name != "sessions" || spec.Version != 1 {
		t.Errorf("got %s, version %d", spec.Name, spec.Version)
	}
	if want := []string{"session_started", "session_ended", "session_aborted"}; !reflect.DeepEqual(spec.Types, want) {
		t.Errorf("got types %q, want %q", spec.Types, want)
	}
	if !strings.HasPrefix(spec.Tables, "CREATE TABLE sessions (") || !strings.HasSuffix(spec.Tables, "CREATE INDEX ON sessions (note);\n") {
		t.Errorf("got tables %q", spec.Tables)
	}
	if n := len(projection.byType["session_aborted"].statements); n != 2 {
		t.Errorf("session_aborted has %d statements, want 2", n)
	}
}

func TestLoadReadsTypesInQuotes(t *testing.T) {
	t.Parallel()
	projection, err := loadText(sessionsHead + `
-- on: plain, "order placed", "a, b", "the ""best"" one" ,"it's; *"
DELETE FROM sessions
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"plain", "order placed", "a, b", `the "best" one`, "it's; *"}
	if got := projection.Spec().Types; !reflect.DeepEqual(got, want) {
		t.Errorf("got types %q, want %q", got, want)
	}
	_, err = loadText(sessionsHead + "-- on: \"a, x y, \"\", \"a\"b\"\nSELECT 1")
	if err == nil || strings.Count(err.Error(), `"order placed"`) == 0 {
		t.Errorf("got %v", err)
	}
}

func TestLoadReplacesFieldsByNumberedParameters(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, sql, want string }{
		{"a field used twice is one parameter", `SELECT event.seq, event.payload, event.seq`, `SELECT ($1::bigint), ($2::jsonb), ($1::bigint)`},
		{"case and white space do not matter", `SELECT EVENT . Seq`, `SELECT ($1::bigint)`},
		{"a quoted field", `SELECT event."payload"`, `SELECT ($1::jsonb)`},
		{"casts and operators stay", `SELECT (event.payload->>'n')::int, event.tags[1]`, `SELECT (($1::jsonb)->>'n')::int, ($2::text[])[1]`},
		{"line breaks inside a field are kept", "SELECT event\n.seq, x", "SELECT ($1::bigint)\n, x"},
		{"strings are left alone", `SELECT 'it''s event.seq', E'\'event.seq', e'\\', event.seq`, `SELECT 'it''s event.seq', E'\'event.seq', e'\\', ($1::bigint)`},
		{"a backslash does not escape in an ordinary string", `SELECT '\', event.seq, '\'`, `SELECT '\', ($1::bigint), '\'`},
		{"dollar quotes are left alone", `SELECT $$event.seq;$$, $a$ $$event.seq $b$ $a$, event.seq`, `SELECT $$event.seq;$$, $a$ $$event.seq $b$ $a$, ($1::bigint)`},
		{"quoted names are left alone", `SELECT "event.seq", "a""event.seq", "event".seq`, `SELECT "event.seq", "a""event.seq", "event".seq`},
		{"comments are left alone", "SELECT /* event.seq /* ; */ event.x */ 1 -- event.x ;\n, event.seq", "SELECT /* event.seq /* ; */ event.x */ 1 -- event.x ;\n, ($1::bigint)"},
		{"a column named event is left alone", `SELECT s.event.seq, event, my_event.seq, event_.seq`, `SELECT s.event.seq, event, my_event.seq, event_.seq`},
		{"letters beyond ASCII belong to names", `SELECT ñevent.seq, event.seq`, `SELECT ñevent.seq, ($1::bigint)`},
		{"numbers end where SQL ends them", `SELECT 1.5, 2*event.seq, 1e5`, `SELECT 1.5, 2*($1::bigint), 1e5`},
		{"a dollar inside a name opens no string", `SELECT a$b$, event.seq, a$b$`, `SELECT a$b$, ($1::bigint), a$b$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			projection, err := loadText(sessionsHead + "-- on: x\n" + tt.sql + ";")
			if err != nil {
				t.Fatal(err)
			}
			statements := projection.byType["x"].statements
			if len(statements) != 1 || statements[0].text != tt.want {
				t.Errorf("got %d statements, the first is\n%q, want\n%q", len(statements), statements[0].text, tt.want)
			}
		})
	}
}

func TestLoadSendsEveryFieldOfAnEvent(t *testing.T) {
	t.Parallel()
	var list []string
	for _, f := range eventFields() {
		list = append(list, "event."+f.name)
	}
	projection, err := loadText(sessionsHead + "-- on: x\nSELECT " + strings.Join(list, ", ") + ";")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(projection.byType["x"].statements[0].fields); n != len(list) {
		t.Errorf("%d parameters for %d fields", n, len(list))
	}
}

func TestLoadReportsMistakesWithTheirLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown fields, all of them", sessionsHead + "-- on: x\nSELECT event.sequence,\n event.*;", []string{
			"s.sql:9: unknown field event.sequence: there are campaign_id, seq,", "s.sql:10: unknown field event.*",
		}},
		{"an empty file", "", []string{"s.sql: no projection header", "s.sql: no version header", "s.sql: no handler", "s.sql: no tables"}},
		{"a bad name", "-- projection: Sessions!\n-- version: 1\nCREATE TABLE a();\n-- on: x\nSELECT 1", []string{`s.sql:1: projection name "Sessions!"`}},
		{"a bad version", "-- projection: s\n-- version: one\nCREATE TABLE a();\n-- on: x\nSELECT 1", []string{`s.sql:2: version "one"`}},
		{"headers twice", sessionsHead + "-- projection: b\n-- version: 2\n-- on: x\nSELECT 1", []string{"s.sql:8: a second projection", "s.sql:9: a second version"}},
		{"a handler before the tables", "-- projection: s\n-- version: 1\n-- on: x\nSELECT 1;", []string{"s.sql:3: a handler before the tables"}},
		{"two handlers for a type", sessionsHead + "-- on: x\nSELECT 1;\n-- on: y, x\nSELECT 2;", []string{"s.sql:10: a second handler for x (the first is in line 8)"}},
		{"an empty handler", sessionsHead + "-- on: x\n-- nothing yet\n;\n-- on: y\nSELECT 2;", []string{"s.sql:8: an empty handler"}},
		{"a handler for no type", sessionsHead + "-- on:\nSELECT 1;", []string{`s.sql:8: event type ""`}},
		{"a type that is none", sessionsHead + "-- on: x when it is late\nSELECT 1;", []string{`s.sql:8: event type "x when it is late"`}},
		{"transaction control", sessionsHead + "COMMIT;\n-- on: x\nSELECT 1; rollback;", []string{"s.sql:8: COMMIT: the projector begins", "s.sql:10: ROLLBACK: the projector begins"}},
		{"COPY", sessionsHead + "-- on: x\nCOPY sessions FROM STDIN;", []string{"s.sql:9: COPY: a handler is made of INSERT"}},
		{"COPY among the tables", sessionsHead + "COPY sessions FROM '/x';\n-- on: x\nSELECT 1;", []string{"s.sql:8: COPY has no place"}},
		{"definitions in a handler", sessionsHead + "-- on: x\nCREATE TABLE b ();", []string{"s.sql:9: CREATE: a handler is made of INSERT"}},
		{"a string that never ends", sessionsHead + "-- on: x\nSELECT 'a;\n-- on: y\n", []string{"s.sql:9: string never ends"}},
		{"a dollar quote that never ends", sessionsHead + "-- on: x\nSELECT $a$ x;", []string{"s.sql:9: string $a$ never ends"}},
		{"a quoted name that never ends", sessionsHead + "-- on: x\nSELECT \"a;", []string{"s.sql:9: quoted name never ends"}},
		{"a comment that never ends", sessionsHead + "-- on: x\nSELECT 1;\n/* /* */", []string{"s.sql:10: comment never ends"}},
		{"a bracket that is never closed", sessionsHead + "-- on: x\nSELECT 1,\n (2;\nSELECT 3;", []string{"s.sql:10: a bracket that is never closed"}},
		{"fields among the tables", sessionsHead + "CREATE INDEX ON sessions ((event.seq));\n-- on: x\nSELECT 1", []string{"s.sql:8: event.seq among the tables"}},
		{"parameters", sessionsHead + "-- on: x\nSELECT $1;", []string{"s.sql:9: $1: parameters are written event.<field>"}},
		{"another encoding", "-- projection: caf\xe9\n", []string{"s.sql:1: not UTF-8"}},
		{"a NUL", "\n-- \x00", []string{"s.sql:2: a NUL character"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := loadText(tt.text)
			assertMistakes(t, err, tt.want)
		})
	}
}

func TestLoadSplitsAtSemicolonsThatEndStatements(t *testing.T) {
	t.Parallel()
	projection, err := loadText(sessionsHead + `
CREATE FUNCTION f(n int) RETURNS int LANGUAGE sql BEGIN ATOMIC
    SELECT CASE WHEN n > 0 THEN 1 END; SELECT 2;
END;
CREATE RULE r AS ON DELETE TO sessions DO ALSO (SELECT 1; SELECT 2);
CREATE FUNCTION g() RETURNS int LANGUAGE sql AS $$ SELECT 1; SELECT 2; $$;;
-- on: x
SELECT 1
`)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(projection.tables); n != 4 {
		t.Errorf("got %d statements, want 4", n)
	}
}

func TestLoadReadsFilesFromWindows(t *testing.T) {
	t.Parallel()
	text := sessionsHead + "-- on: x\nSELECT 'a\nb', event.sequence"
	_, err := loadText("\xef\xbb\xbf" + strings.ReplaceAll(text, "\n", "\r\n"))
	assertMistakes(t, err, []string{"s.sql:10: unknown field event.sequence"})
}

func TestLoadDirReportsTheMistakesOfAllFiles(t *testing.T) {
	t.Parallel()
	file := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("-- version: 1\n-- projection: " + name + "\nCREATE TABLE t ();\n-- on: x\nSELECT 1;")}
	}
	_, err := LoadDir(fstest.MapFS{"a.sql": file("one"), "b.sql": file("two"), "c.sql": file("one"), "d.sql": file("No")})
	assertMistakes(t, err, []string{`c.sql:2: version 1 of projection "one" is already in a.sql`, `d.sql:2: projection name "No"`})
}

func TestLoadDirLoadsTheVersionsOfAProjection(t *testing.T) {
	t.Parallel()
	good := sessionsHead + "-- on: x\nSELECT 1;"
	projections, err := LoadDir(fstest.MapFS{"a.sql": {Data: []byte(good)}, "b.sql": {Data: []byte(strings.Replace(good, "version: 1", "version: 2", 1))}})
	if err != nil || len(projections) != 2 || projections[0].Spec().Name != projections[1].Spec().Name || projections[0].Spec().Version == projections[1].Spec().Version {
		t.Errorf("loaded %v: %v", projections, err)
	}
}

func TestLoadDirLoadsSQLFilesAndNothingElse(t *testing.T) {
	t.Parallel()
	good := &fstest.MapFile{Data: []byte(sessionsHead + "-- on: x\nSELECT 1;")}
	bad := &fstest.MapFile{Data: []byte("COMMIT")}
	projections, err := LoadDir(fstest.MapFS{"b.sql": good, "README.md": bad, ".hidden.sql": bad, "folder.sql/x.sql": bad, "old.sql.bak": bad})
	if err != nil {
		t.Fatal(err)
	}
	if len(projections) != 1 || projections[0].Spec().Name != "sessions" {
		t.Errorf("got %d projections", len(projections))
	}
}

func TestLoadDirRefusesAFolderWithoutProjections(t *testing.T) {
	t.Parallel()
	if _, err := LoadDir(fstest.MapFS{"README.md": {}}); err == nil {
		t.Error("no error for a folder without .sql files")
	}
	if _, err := Load(fstest.MapFS{}, "missing.sql"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for a missing file, want fs.ErrNotExist", err)
	}
}

func FuzzLexerCoversTheSource(f *testing.F) {
	for _, seed := range []string{sessionsHead, `E'\'' $a$;$a$ "x""y" /* /* */ */ --`, `$`, `$1$$`, `"`, `e'`, "/*", "é\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		var covered strings.Builder
		for _, tok := range lex(src, func(int, string, ...any) {}) {
			if gap := src[covered.Len():tok.pos]; strings.TrimLeft(gap, " \t\n\v\f\r") != "" {
				t.Fatalf("%q belongs to no token", gap)
			}
			if line := 1 + strings.Count(src[:tok.pos], "\n"); tok.line != line {
				t.Fatalf("%q is in line %d, not %d", tok.text, line, tok.line)
			}
			covered.WriteString(src[covered.Len():tok.pos] + tok.text)
		}
		if rest := src[covered.Len():]; strings.TrimLeft(rest, " \t\n\v\f\r") != "" {
			t.Fatalf("%q belongs to no token", rest)
		}
		_, _ = parseSQLFile("s.sql", []byte(sessionsHead+"-- on: x\n"+src)) // must not panic
	})
}

func loadText(text string) (*sqlFile, error) {
	return loadFile(fstest.MapFS{"s.sql": {Data: []byte(text)}}, "s.sql")
}

// assertMistakes compares the joined errors, one by one, with the wanted prefixes.
func assertMistakes(t *testing.T, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	matches := func(message, start string) bool { return strings.HasPrefix(message, start) }
	if !slices.EqualFunc(got, want, matches) {
		t.Errorf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	var mistake *Error
	if err != nil && !errors.As(err, &mistake) {
		t.Errorf("%v is no *Error", err)
	}
}
