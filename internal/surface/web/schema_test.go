package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWithoutASchemaPagesAndCallsSaySoOnce(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := listen(t, pool, admin.Config{}, func(c *web.Config) { c.Auth.Anonymous = auth.Admin })
	paths := []string{
		"/", "/campaigns", "/campaign?id=a", "/event?campaign=a&seq=1", "/failed", "/parked", "/projections",
		"/publishers", "/workers",
		"/audit", "/operations", "/act/requeueManyFailed?all=true", "/act/retryManyParked?all=true", "/failed?projection=p",
	}
	for _, route := range routes(t, s) {
		switch id := route.OperationID; {
		// getDoctor reports a missing schema as a finding.
		case route.Method != http.MethodGet, id == "getDescription", id == "getMe", id == "getDoctor":
		default:
			paths = append(paths, path(route.Pattern)+query(id))
		}
	}
	for _, path := range paths {
		response, body := s.call(t, auth.Nobody, http.MethodGet, path, "", nil)
		if response.StatusCode != http.StatusServiceUnavailable || strings.Count(body, "run tidemark migrate up") != 1 ||
			strings.Contains(body, "not be read") {
			t.Errorf("%s answers %s\n%s", path, response.Status, body[max(0, len(body)-1500):])
		}
	}
}
