package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
)

func TestTheAPIKeepsToHTTP(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	first, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/campaigns", "", nil)
	tag := first.Header.Get("ETag")
	for list, want := range map[string]int{
		tag: http.StatusNotModified, "W/" + tag: http.StatusNotModified, `"other", ` + tag: http.StatusNotModified,
		`"other",W/` + tag: http.StatusNotModified, "*": http.StatusNotModified,
		`"other"`: http.StatusOK, strings.Trim(tag, `"`): http.StatusOK,
	} {
		response, again := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/campaigns", "",
			map[string]string{"If-None-Match": list})
		if response.StatusCode != want || want == http.StatusOK && again != body || want == http.StatusNotModified &&
			again != "" || response.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s is answered %s with %q and ETag %s", list, response.Status, again,
				response.Header.Get("ETag"))
		}
	}
	// A response that one role must not see must not be cached for another.
	if cache, vary := first.Header.Get("Cache-Control"), first.Header.Get("Vary"); cache != "private, no-cache" ||
		!strings.Contains(vary, "Authorization") || !strings.Contains(vary, "Cookie") {
		t.Errorf("it may be kept: %q, %q", cache, vary)
	}
	exec(t, pool, `SELECT tidemark.append('new', '[{"type": "noted"}]')`)
	if response, _ := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/campaigns", "",
		map[string]string{"If-None-Match": tag}); response.StatusCode != http.StatusOK || response.Header.Get("ETag") == tag {
		t.Errorf("what has changed is answered %s with the same tag", response.Status)
	}

	before := scan[string](t, pool, everything)
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		want                     string
	}{
		{http.MethodGet, "/api/v1/nothing", "", "", http.StatusNotFound, `"value":"/api/v1/nothing"`},
		{http.MethodGet, "/api/v1/gaps?group=nowhere", "", "", http.StatusBadRequest, `"limit":"default"`},
		{http.MethodGet, "/api/v1/leases?group=nowhere", "", "", http.StatusBadRequest, `group \"nowhere\"`},
		{http.MethodGet, "/api/v1/campaigns/nobody/events", "", "", http.StatusNotFound, `campaign \"nobody\"`},
		{http.MethodGet, "/api/v1/operations/77/items", "", "", http.StatusNotFound, "operation 77"},
		{http.MethodGet, "/api/v1/publishers/t/nobody/lag", "", "", http.StatusNotFound, `publisher \"t/nobody\": `},
		{
			http.MethodGet, "/api/v1/campaigns/b%2F1/as-of?projection=notes&seq=1", "", "", http.StatusConflict,
			`event 1 (bad) of campaign \"b/1\": cannot be read`,
		},
		{
			http.MethodGet, "/api/v1/campaigns/b%2F1/diff?projection=notes&to=1", "", "", http.StatusConflict,
			`"remedy":"look at the campaign as of the previous event`,
		},
		{http.MethodDelete, "/api/v1/campaigns/a", "", "", http.StatusMethodNotAllowed, `"value":"DELETE","limit":"GET"`},
		{http.MethodGet, "/api/v1/campaigns/a/replay", "", "", http.StatusMethodNotAllowed, `"value":"GET","limit":"POST"`},
		{
			http.MethodGet, "/api/v1/campaigns?limit=1&limit=2", "", "", http.StatusBadRequest,
			`"field":"limit","value":"1, 2"`,
		},
		{
			http.MethodPost, "/api/v1/campaigns/a/pause", "text/plain", `{}`, http.StatusUnsupportedMediaType,
			`"value":"text/plain","limit":"application/json"`,
		},
		{
			http.MethodPost, "/api/v1/campaigns/a/pause", "application/json", `{"reason": "x"} {"reason": "y"}`,
			http.StatusBadRequest, "there is data after the object",
		},
		{
			http.MethodPost, "/api/v1/campaigns/a/pause", "application/json", `{"reason": `, http.StatusBadRequest,
			"unexpected EOF",
		},
		{
			http.MethodPost, "/api/v1/campaigns/a/pause", "application/json", `{"why": "x"}`, http.StatusBadRequest,
			`unknown field \"why\"`,
		},
		{http.MethodPost, "/api/v1/campaigns/a/pause", "application/json", `{"reason": 7}`, http.StatusBadRequest, "reason"},
		{
			http.MethodPost, "/api/v1/campaigns/a/pause", "application/json", `{"with": {"group": "default", "for": "-1h"}}`,
			http.StatusBadRequest, `"field":"for","value":"-1h","limit":"more than 0"`,
		},
		{
			http.MethodPost, "/api/v1/campaigns/a/pause", "application/json", `{"with": {"group": "default", "for": "soon"}}`,
			http.StatusBadRequest, `write it like 90s, 15m, 2h or 7d`,
		},
		{
			http.MethodPost, "/api/v1/publishers/t/s/reset", "application/json",
			`{"with": {"position": 1, "time": "2026-01-02T03:04:05Z", "confirm": "s"}}`, http.StatusBadRequest,
			"give a position, a time, or the end",
		},
		{
			http.MethodPost, "/api/v1/tokens/eve/create", "application/json", `{"with": {"role": "king"}}`,
			http.StatusBadRequest, `"field":"role","value":"king","limit":"viewer, operator, admin"`,
		},
		{
			http.MethodPost, "/api/v1/workers/nobody/drain", "application/json", `{"with": {"confirm": "nobody"}}`,
			http.StatusNotFound, `worker \"nobody\"`,
		},
		{
			http.MethodPost, "/api/v1/operations/x/abort", "", "", http.StatusBadRequest,
			`"field":"id","value":"x","limit":"1 or more"`,
		},
		{
			http.MethodPost, "/api/v1/campaigns/a/resume", "application/json; charset=utf-8", `{"with": {"group": "nowhere"}}`,
			http.StatusConflict, "not paused",
		},
	} {
		header := map[string]string{}
		if c.kind != "" {
			header["Content-Type"] = c.kind
		}
		response, text := s.call(t, auth.Admin, c.method, c.path, c.body, header)
		if response.StatusCode != c.status || !strings.Contains(text, c.want) ||
			response.Header.Get("Content-Type") != "application/problem+json" || response.Header.Get("ETag") != "" {
			t.Errorf("%s %s %s is answered %s, want %d and %s:\n%s", c.method, c.path, c.body, response.Status, c.status,
				c.want, text)
		}
		if allow := response.Header.Get("Allow"); (c.status == http.StatusMethodNotAllowed) != (allow != "") {
			t.Errorf("%s %s is answered with Allow: %q", c.method, c.path, allow)
		}
	}
	if scan[string](t, pool, everything) != before {
		t.Error("a request that was refused has changed something")
	}
}

func TestADatabaseThatCannotBeReachedIsNamedAsTheCause(t *testing.T) {
	t.Parallel()
	nowhere, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	s := serve(t, func(c *web.Config) { c.Pool, c.Auth.Anonymous = nowhere, auth.Viewer })
	response, body := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/campaigns", "", nil)
	if response.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(body, "the database cannot be reached") || !strings.Contains(body, `"remedy":"look at Postgres`) {
		t.Errorf("it is answered %s %s", response.Status, body)
	}
}

// A wrong word must not lead to an empty list or to the response of another question.
func TestARefusalNamesTheValueTheLimitAndTheRemedy(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	for call, want := range map[string]string{
		"/operations?state=late":                         `"field":"state","value":"late","limit":"running, done, aborted, failed"`,
		"/operations?kind=mend":                          `"field":"kind","value":"mend","limit":"requeue, resolve, `,
		"/failed?status=dead&status=gone":                `"field":"status","value":"gone","limit":"failed, dead, catching_up"`,
		"/failed-log?act=seen":                           `"field":"act","value":"seen","limit":"`,
		"/log?act=seen":                                  `"field":"act","value":"seen","limit":"`,
		"/parked?status=lost":                            `"field":"status","value":"lost","limit":"retrying, parked, draining"`,
		"/queue/entries?status=late":                     `"field":"status","value":"late","limit":"pending, processing, paused, failed, dead, catching_up"`,
		"/status?section=weather":                        `"field":"section","value":"weather","limit":"`,
		"/campaigns?limit=1001":                          `"field":"limit","value":"1001","limit":"1 to 1000"`,
		"/campaigns/a/as-of?seq=1":                       `"field":"projection"`,
		"/campaigns/a/as-of?projection=notes":            `"field":"seq","limit":"0 or more"`,
		"/campaigns/a/diff?projection=notes&from=1":      `"field":"to"`,
		"/campaigns/a/diff?projection=notes&from=2&to=1": `"field":"from","value":"2","limit":"0 to 1"`,
		"/campaigns/a/why?table=notes":                   `"field":"projection"`,
		"/campaigns/a/events/0":                          `"field":"seq","value":"0","limit":"1 or more"`,
		"/campaigns?prefix=%00":                          `correct the regular expression, or write text as UTF-8 without NUL`,
		"/parked?message=(":                              `correct the regular expression, or write text as UTF-8 without NUL`,
		"/leases":                                        `"field":"group"`,
	} {
		response, body := s.call(t, auth.Admin, http.MethodGet, "/api/v1"+call, "", nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, want) ||
			response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s is answered %s %s, want %s", call, response.Status, body, want)
		}
	}
	// Without from, the diff shows the effect of the event alone, as on the command line.
	if response, body := s.call(t, auth.Admin, http.MethodGet, "/api/v1/campaigns/a/diff?projection=notes&to=2", "",
		nil); response.StatusCode != http.StatusOK || !strings.Contains(body, `"kind":"changed"`) {
		t.Errorf("event 2 has done %s %s", response.Status, body)
	}
}
