package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/api"
)

func routes(t *testing.T, s *served) []api.Route {
	t.Helper()
	a, err := api.New(api.Config{Pool: s.pool, Acts: s.acts, Failed: func(http.ResponseWriter, *http.Request, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	return a.Routes()
}

// everything is a hash of the rows that a refused request must not change.
const everything = `SELECT md5(concat((SELECT string_agg(d::text, ';' ORDER BY campaign_id, projection)
	FROM tidemark.failed d), (SELECT string_agg(p::text, ';') FROM tidemark.pauses p),
	(SELECT string_agg(p::text, ';') FROM tidemark.readers p),
		(SELECT string_agg(p::text, ';') FROM tidemark.parked p),
		(SELECT string_agg(p::text, ';' ORDER BY name) FROM tidemark.projections p),
	(SELECT string_agg(o::text, ';') FROM tidemark.operations o), (SELECT count(*) FROM tidemark.failure_log),
		(SELECT count(*) FROM tidemark.operator_log),
	(SELECT string_agg(w::text, ';') FROM tidemark.workers w)))`

func TestEveryRouteIsForItsRoleAlone(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	all := append(routes(t, s), api.Route{Method: http.MethodGet, Pattern: "/", Role: auth.Viewer},
		api.Route{Method: http.MethodGet, Pattern: "/events", Role: auth.Viewer},
		api.Route{Method: http.MethodGet, Pattern: "/nothing/here", Role: auth.Viewer},
		api.Route{Method: http.MethodPost, Pattern: "/api/v1/nothing", Role: auth.Viewer})
	before := scan[string](t, pool, everything)
	for _, route := range all {
		for role := auth.Nobody; role < route.Role; role++ {
			want := http.StatusForbidden
			if role == auth.Nobody {
				want = http.StatusUnauthorized
			}
			response, body := s.call(t, role, route.Method, path(route.Pattern)+query(route.OperationID), "",
				map[string]string{"Idempotency-Key": "k"})
			if response.StatusCode != want || response.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s by %s is answered %s, want %d\n%s", route.Method, route.Pattern, role, response.Status, want, body)
			}
			if want == http.StatusUnauthorized && len(response.Header.Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s %s by nobody is answered without a challenge", route.Method, route.Pattern)
			}
		}
	}
	if scan[string](t, pool, everything) != before {
		t.Error("a request that was refused has changed something")
	}
	for _, route := range all {
		if route.Pattern == "/events" || route.Streams {
			continue
		}
		response, body := s.call(t, route.Role, route.Method, path(route.Pattern)+query(route.OperationID), "", nil)
		if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden &&
			!slices.Contains(withRows(), route.OperationID) || response.StatusCode >= 500 {
			t.Errorf("%s %s by %s is answered %s\n%s", route.Method, route.Pattern, route.Role, response.Status, body)
		}
	}
}

func scan[T any](t *testing.T, pool *pgxpool.Pool, sql string) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// description returns openapi.yaml as JSON Schema.
func description(t *testing.T) (compile func(pointer string) *jsonschema.Schema, document map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource("mem:///openapi.json", value); err != nil {
		t.Fatal(err)
	}
	document, _ = value.(map[string]any)
	return func(pointer string) *jsonschema.Schema {
		schema, err := compiler.Compile("mem:///openapi.json#" + pointer)
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}, document
}

func escape(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1"), "{",
		"%7B"), "}", "%7D")
}

func check(t *testing.T, what string, schema *jsonschema.Schema, body string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s is not answered as described: %v\n%.2000s", what, err, body)
	}
}

func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	compile, file := description(t)
	refusal := compile("/components/schemas/Problem")
	paths, _ := file["paths"].(map[string]any)
	for _, route := range routes(t, s) {
		if route.OperationID == "getDescription" {
			continue
		}
		what := path(route.Pattern) + query(route.OperationID)
		if route.Method == http.MethodPost {
			response, body := s.call(t, auth.Admin, route.Method, what, `{"with": {"bogus": 1}}`,
				map[string]string{"Content-Type": "application/json"})
			if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "bogus") {
				t.Errorf("%s takes a field that there is not: %s\n%s", what, response.Status, body)
			}
			check(t, what, refusal, body)
			continue
		}
		if route.OperationID == "exportEvents" || route.Streams {
			sameParameters(t, s, route, paths)
			continue
		}
		response, body := s.call(t, auth.Admin, route.Method, what, "", nil)
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s is answered %s\n%s", what, response.Status, body)
			continue
		}
		check(t, what, compile("/paths/"+escape(route.Pattern)+"/get/responses/200/content/application~1json/schema"), body)
		tag := response.Header.Get("ETag")
		if again, text := s.call(t, auth.Admin, route.Method, what, "",
			map[string]string{"If-None-Match": tag}); again.StatusCode != http.StatusNotModified &&
			again.Header.Get("ETag") == tag || tag == "" {
			t.Errorf("%s again with its ETag %q is answered %s\n%s", what, tag, again.Status, text)
		}
		sameParameters(t, s, route, paths)
	}
}

// sameParameters calls with an unknown parameter. The refusal lists the known ones.
func sameParameters(t *testing.T, s *served, route api.Route, paths map[string]any) {
	t.Helper()
	methods, _ := paths[route.Pattern].(map[string]any)
	call, _ := methods["get"].(map[string]any)
	listed, _ := call["parameters"].([]any)
	var documented, taken []string
	for _, p := range listed {
		p, _ := p.(map[string]any)
		if route.Streams && p["in"] != "query" {
			continue
		}
		documented = append(documented, fmt.Sprint(p["name"]))
	}
	_, body := s.call(t, auth.Admin, route.Method, path(route.Pattern)+"?bogus=1&"+
		strings.TrimPrefix(query(route.OperationID), "?"), "", nil)
	var refused struct{ Field, Limit string }
	if err := json.Unmarshal([]byte(body), &refused); err != nil {
		t.Fatal(err)
	}
	if refused.Field == "bogus" && refused.Limit != "" {
		taken = strings.Split(refused.Limit, ", ")
	}
	slices.Sort(documented)
	slices.Sort(taken)
	if !slices.Equal(documented, taken) {
		t.Errorf("%s is described with the parameters %q and takes %q", route.Pattern, documented, taken)
	}
}

func TestPayloadsAreForThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	for _, what := range []string{"/api/v1/campaigns/a/events", "/api/v1/campaigns/a/events/1"} {
		if _, body := s.call(t, auth.Viewer, http.MethodGet, what, "", nil); strings.Contains(body, "s3cret") ||
			!strings.Contains(body, `"payload":null`) {
			t.Errorf("a viewer sees %s", body)
		}
		if _, body := s.call(t, auth.Operator, http.MethodGet, what, "", nil); !strings.Contains(body, "s3cret") {
			t.Errorf("an operator sees %s", body)
		}
	}
	if response, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/campaigns/a/as-of?projection=notes&seq=1", "",
		nil); response.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer sees rows: %s", body)
	}
	if _, body := s.call(t, auth.Operator, http.MethodGet, "/api/v1/campaigns/a/as-of?projection=notes&seq=1", "",
		nil); !strings.Contains(body, `"count":1`) && !strings.Contains(body, `"count": 1`) {
		t.Errorf("after event 1 the rows are %s", body)
	}
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at) SELECT 'x' || i, 'notes', 'default', 1, 'dead', 'infinity' FROM generate_series(1, 24) i;
		INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, first_failed_at)
			SELECT 't', 's', 'x' || i, 1, true, 1, 'parked', CASE WHEN i % 2 = 0 THEN now() END FROM generate_series(1, 24) i;
		INSERT INTO tidemark.operator_log (actor, act) SELECT 'ada', 'noted' FROM generate_series(1, 21); -- and three tokens were made
		INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
			SELECT 'campaign', 'default', 'x' || i, 'a test', 'ada' FROM generate_series(1, 22) i;
		INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
			VALUES ('group', 'default', '', 'a test', 'ada'), ('projection', 'default', 'notes', 'a test', 'ada');
		INSERT INTO tidemark.retention (policy, closed_for, event_types, every, rate)
			SELECT 'p' || i, '1 day', '{closed}', '1 h', 9 FROM generate_series(1, 24) i;
		INSERT INTO tidemark.restore_requests (campaign_id, asked_by, asked_at, attempt_at)
			SELECT 'c' || i, 'shop', now(), now() FROM generate_series(1, 24) i;
		INSERT INTO tidemark.erasures (request, campaign_id, actor, reason, changed)
			SELECT sha256(int4send(i)), nullif('x' || i, 'x1'), 'ada', 'a test', '{"journal": 2}' FROM generate_series(1, 24) i; -- and one of the fixture
		SELECT tidemark.append_at('c' || i, now() + interval '1 h', '[{"type": "noted"}]') FROM generate_series(1, 24) i;
		SELECT tidemark.append('c' || i, '[{"type": "noted"}]') FROM generate_series(1, 23) i`)
	for _, what := range []string{
		"/api/v1/failed", "/api/v1/parked", "/api/v1/log", "/api/v1/campaigns",
		"/api/v1/pauses", "/api/v1/queue/entries", "/api/v1/queue/entries?status=dead", "/api/v1/scheduled",
		"/api/v1/erasures", "/api/v1/retention", "/api/v1/retention/requests",
	} {
		seen := map[string]bool{}
		after, pages := "", 0
		for ; pages < 9; pages++ {
			_, body := s.call(t, auth.Viewer, http.MethodGet,
				what+map[bool]string{false: "?", true: "&"}[strings.Contains(what, "?")]+"limit=7&after="+after, "", nil)
			var p struct {
				Items []json.RawMessage
				Next  *string
			}
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err)
			}
			for _, item := range p.Items {
				if seen[string(item)] {
					t.Errorf("%s answers %s twice", what, item)
				}
				seen[string(item)] = true
			}
			if p.Next == nil {
				break
			}
			after = *p.Next
		}
		want := 25
		if what == "/api/v1/queue/entries" {
			want = 48 // an event of each of 23 campaigns, and the failed ones
		}
		if len(seen) != want || pages != (want-1)/7 {
			t.Errorf("%s answers %d items on %d pages", what, len(seen), pages+1)
		}
	}
	if response, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/failed?after=nonsense&limit=5000", "",
		nil); response.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"limit":"1 to 1000"`) {
		t.Errorf("nonsense is answered %s %s", response.Status, body)
	}
}

func TestActsThroughTheAPI(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	jsonBody := map[string]string{"Content-Type": "application/json", "Idempotency-Key": "one"}
	for _, want := range []string{`"repeated":false`, `"repeated":true`} {
		response, body := s.call(t, auth.Operator, http.MethodPost, "/api/v1/failed/notes/b%2F1/requeue",
			`{"reason": "mended"}`, jsonBody)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("requeue: %s %s, want %s", response.Status, body, want)
		}
	}
	if response, body := s.call(t, auth.Operator, http.MethodPost, "/api/v1/failed/notes/b%2F1/requeue",
		`{"reason": "another"}`, jsonBody); response.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "Idempotency-Key") {
		t.Errorf("another request with the same key: %s %s", response.Status, body)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log WHERE act = 'failed_requeued'
		AND actor = 'operator' AND reason = 'mended' AND way = 'api' AND token_id > 0 AND address = '127.0.0.1'`); n != 1 {
		t.Errorf("it is in the log %d times", n)
	}
	for call, want := range map[string]int{
		"/api/v1/failed/notes/a/requeue":          http.StatusNotFound,
		"/api/v1/projections/notes/rebuild/abort": http.StatusUnprocessableEntity, // no confirmation
		"/api/v1/projections/notes/rollback":      http.StatusUnprocessableEntity,
		"/api/v1/groups/default/repair-gaps":      http.StatusUnprocessableEntity,
		"/api/v1/parked/t/s/a/1/resolve":          http.StatusBadRequest, // no reason
		"/api/v1/publishers/t/s/resume":           http.StatusConflict,
		"/api/v1/publishers/t/nobody/pause":       http.StatusNotFound,
		"/api/v1/failed/notes/b%2F1/resolve":      http.StatusBadRequest, // no reason
		"/api/v1/operations/77/abort":             http.StatusNotFound,
		"/api/v1/campaigns/a/replay":              http.StatusBadRequest, // no group
		"/api/v1/parked/t/s/a/0/retry":            http.StatusBadRequest,
		"/api/v1/workers/nobody/drain":            http.StatusUnprocessableEntity,
		"/api/v1/workers/nobody/undrain":          http.StatusNotFound,
	} {
		response, body := s.call(t, auth.Admin, http.MethodPost, call, "", nil)
		if response.StatusCode != want || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s is answered %s, want %d: %s", call, response.Status, want, body)
		}
	}
	response, body := s.call(t, auth.Admin, http.MethodPost, "/api/v1/publishers/t/s/reset",
		`{"with": {"position": 99, "confirm": "s"}}`, map[string]string{"Content-Type": "application/json"})
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "position 99") {
		t.Errorf("a reset beyond the journal: %s %s", response.Status, body)
	}
	response, body = s.call(t, auth.Admin, http.MethodPost, "/api/v1/publishers/t/s/reset",
		`{"with": {"position": 0, "dry_run": true}}`, map[string]string{"Content-Type": "application/json"})
	if response.StatusCode != http.StatusOK || !strings.Contains(body, `"forgotten":1`) ||
		scan[int](t, pool, `SELECT position FROM tidemark.readers`) != 1 {
		t.Errorf("a dry run: %s %s", response.Status, body)
	}
}
