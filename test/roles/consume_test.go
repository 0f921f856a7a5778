package roles_test

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestAnApplicationConsumesAsTheGuideSays runs the guide's statements as the login that it has an administrator
// make. internal/docstest compares what they print.
func TestAnApplicationConsumesAsTheGuideSays(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	guide, err := os.ReadFile("../../docs/guides/consume.md")
	must(t, err)
	name := in.prefix + "_letters"
	_, err = in.admin.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE %[1]s LOGIN PASSWORD 'secret' IN ROLE %[2]s_application;
		CREATE SCHEMA letters AUTHORIZATION %[1]s`, name, in.prefix), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	u, err := url.Parse(in.url)
	must(t, err)
	u.User = url.UserPassword(name, "secret")
	letters := in.connect(t, u.String())
	snippets := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(guide, -1)
	for _, snippet := range snippets {
		if _, err := letters.Exec(t.Context(), string(snippet[1]), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s\n%v", snippet[1], err)
		}
	}
	var place, written int
	must(t, letters.QueryRow(t.Context(), `SELECT (SELECT "position" FROM letters.place), (SELECT count(*)
		FROM letters.outgoing)`).Scan(&place, &written))
	if len(snippets) < 5 || place != 3 || written != 2 {
		t.Errorf("%d statements led to place %d and %d letters", len(snippets), place, written)
	}
}
