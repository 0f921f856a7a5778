package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
)

func TestRedactionHidesValuesOfRowsToo(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	paths, err := payload.ParsePaths("$..count")
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, pool, acting, func(c *web.Config) { c.Payloads.Redact = paths })
	shown := regexp.MustCompile(`"count\\?": ?[0-9]`)
	for _, path := range []string{
		"/api/v1/campaigns/a/as-of?projection=notes&seq=2",
		"/api/v1/campaigns/a/diff?projection=notes&from=1&to=2",
	} {
		response, body := s.call(t, auth.Admin, http.MethodGet, path, "", nil)
		if response.StatusCode != http.StatusOK || shown.MatchString(body) || !strings.Contains(body, payload.Hidden) {
			t.Errorf("%s is answered %s %s", path, response.Status, body)
		}
	}
}
