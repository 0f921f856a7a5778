package pages_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/web/auth"
)

// TestPagesAreAsTheyWereReviewed compares the HTML of the main pages with the files of testdata, so that a change is seen. Run with -update to write them anew.
func TestPagesAreAsTheyWereReviewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, path := range map[string]string{
		"campaign": "/campaign?id=oak&seq=5", "event": "/event?campaign=oak&seq=3", "pair": "/deferred/pair?projection=scores&campaign=tomb-0",
		"parked": "/parked?topic=campaign-events&publisher=billing&campaign=cave-00&seq=4", "projections": "/projections", "bulk": "/bulk?kind=requeue&projection=scores&message=door", "settings": "/settings",
	} {
		status, body := w.get(t, auth.Admin, path)
		if status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
			continue
		}
		got, file := lasting(t, body), filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got == string(want) {
			continue
		}
		is, was := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range is {
			if i >= len(was) || is[i] != was[i] {
				t.Errorf("%s is not as in %s, line %d:\n%s\n(go test -run Reviewed -update ./internal/web/pages writes it anew, to be reviewed)", path, file, i+1, is[i])
				break
			}
		}
		if len(is) < len(was) {
			t.Errorf("%s has %d lines, %s has %d", path, len(is), file, len(was))
		}
	}
}

//nolint:gochecknoglobals // a flag of the tests
var update = flag.Bool("update", false, "write the pages of testdata anew")

// lasting answers what of a page is the same each time: its content, a tag on a line, without times, ages and ids.
func lasting(t *testing.T, page string) string {
	t.Helper()
	_, content, found := strings.Cut(page, "<main")
	content, _, closed := strings.Cut(content, "</main>")
	if !found || !closed {
		t.Fatal("the page has no content")
	}
	content = "<main" + content
	for _, r := range []struct{ pattern, by string }{
		{`(?s)<time[^>]*>.*?</time>`, `<time/>`},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `UUID`},
		{`>[^<>/]+/UUID<`, `>WORKER<`},
		{`\b[0-9a-f]{12}\b`, `FINGERPRINT`},
		{`\b[0-9]+ (ms|s|min|h|d)\b( [0-9]+ (s|min|h)\b)?`, `AGE`},
		{`(name="key" value=")[^"]*`, `${1}KEY`},
		{`(?m)\s*\n\s*`, "\n"},
		{`><`, ">\n<"},
	} {
		content = regexp.MustCompile(r.pattern).ReplaceAllString(content, r.by)
	}
	return content + "\n"
}
