package docstest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestSnippets runs the SQL, Python and JavaScript of the pages and logs the interpreter. SQL
// always runs, because psql comes with Postgres.
func TestSnippets(t *testing.T) {
	t.Parallel()
	for lang, find := range map[string]func(*testing.T) *interpreter{"sql": psql, "python": python, "js": node} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			program := find(t)
			if program == nil {
				return // the log has the reason
			}
			t.Logf("run by %s", program.path)
			ran := 0
			for _, p := range pages(t) {
				ran += runPage(t, program, p, lang)
			}
			if ran == 0 {
				t.Errorf("no snippet in %s, the docs should have some", lang)
			}
		})
	}
}

// runPage runs the page's snippets of a language in order, on a database of their own. It compares
// their output with the "text output" after them and returns the number of snippets.
func runPage(t *testing.T, program *interpreter, p page, lang string) (ran int) {
	t.Helper()
	var url string
	for i, s := range p.snippets {
		if s.lang != lang {
			continue
		}
		if url == "" {
			url = pgtest.URL(t)
			prepare(t, url, p.path)
		}
		ran++
		out, err := program.run(t.Context(), url, s.text)
		if err != nil {
			t.Fatalf("%s:%d: %v\n%s", p.path, s.line, err, out)
		}
		if i+1 < len(p.snippets) && p.snippets[i+1].lang == "text output" {
			if want := p.snippets[i+1]; trimmed(out) != trimmed(want.text) {
				t.Errorf("%s:%d: the snippet printed\n%s\nthe page says\n%s", p.path, want.line, out, want.text)
			}
		}
	}
	return ran
}

// prepare makes what a page has an administrator make, with a role of the server (test/roles runs the page as it).
func prepare(t *testing.T, url, page string) {
	t.Helper()
	if filepath.Base(page) != "consume.md" {
		return
	}
	conn, err := pgx.Connect(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "CREATE SCHEMA letters")
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}
