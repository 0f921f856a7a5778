package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// act runs an act as an admin and returns the response body.
func (s *served) act(t *testing.T, path, body string, want int) string {
	t.Helper()
	response, text := s.call(t, auth.Admin, http.MethodPost, path, body,
		map[string]string{"Content-Type": "application/json"})
	if response.StatusCode != want {
		t.Fatalf("%s %s is answered %s, want %d\n%s", path, body, response.Status, want, text)
	}
	return text
}

// lastAct is the newest record of the operator log.
const lastAct = `SELECT concat_ws(' ', act, actor, reason) FROM tidemark.operator_log ORDER BY id DESC LIMIT 1`

func TestEventsAreQueriedByTypeAndTag(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	exec(t, pool, `SELECT tidemark.append('c' || i % 3, jsonb_build_array(jsonb_build_object('type', 'moved', 'tags',
		jsonb_build_array('n=' || i % 2)))) FROM generate_series(1, 20) i`)
	s := serveOn(t, pool, acting, nil)
	for what, want := range map[string]int{
		"": 23, "type=moved": 20, "type=moved&type=bad": 21, "tag=n%3D1": 10,
		"type=bad&tag=n%3D1": 0,
	} {
		var positions []int64
		after := ""
		for pages := 0; pages < 10; pages++ {
			_, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/events?limit=7&"+what+"&after="+after, "", nil)
			var p struct {
				Items []struct{ Position int64 }
				Next  *string
			}
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Items {
				positions = append(positions, e.Position)
			}
			if p.Next == nil {
				break
			}
			after = *p.Next
		}
		if len(positions) != want || !slices.IsSorted(positions) || len(slices.Compact(slices.Clone(positions))) != want {
			t.Errorf("%q chooses %v, want %d events", what, positions, want)
		}
	}
}

// exported returns the lines of an export and its trailer.
func (s *served) exported(t *testing.T, role auth.Role, query string) (status int, lines []string, next string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/api/v1/events/export?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.tokens[role])
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode == http.StatusOK && response.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("an export is %s", response.Header.Get("Content-Type"))
	}
	return response.StatusCode, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"),
		response.Trailer.Get("Tidemark-Next")
}

func TestAnExportIsWhatTheCommandWritesAndGoesOn(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	hidden, err := payload.ParsePaths("$.secret")
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, pool, acting, nil)
	var want strings.Builder
	if _, err := ndjson.Export(t.Context(), pool, &want, ndjson.ExportConfig{}); err != nil {
		t.Fatal(err)
	}
	status, lines, next := s.exported(t, auth.Operator, "")
	if got := strings.Join(lines, "\n") + "\n"; status != http.StatusOK || got != want.String() || next != "" {
		t.Errorf("%d, next %q:\n%swant\n%s", status, next, got, want.String())
	}
	var pieces []string
	after := "0"
	for pages := 0; after != "" && pages < 5; pages++ {
		_, some, next := s.exported(t, auth.Operator, "limit=2&after="+after)
		pieces, after = append(pieces, some...), next
	}
	if !slices.Equal(pieces, lines) {
		t.Errorf("in pieces it is %q", pieces)
	}
	if _, some, _ := s.exported(t, auth.Operator, "campaign=a&type=noted"); len(some) != 2 {
		t.Errorf("of campaign a it is %q", some)
	}
	if status, body, _ := s.exported(t, auth.Viewer, ""); status != http.StatusForbidden ||
		strings.Contains(body[0], "s3cret") {
		t.Errorf("a viewer is answered %d %s", status, body)
	}
	exec(t, pool, `DELETE FROM tidemark.tokens`)
	redacting := serveOn(t, pool, acting, func(c *web.Config) { c.Payloads.Redact = hidden })
	if _, some, _ := redacting.exported(t, auth.Admin, ""); strings.Contains(strings.Join(some, ""), "s3cret") ||
		len(some) != 3 {
		t.Errorf("what is redacted is exported: %q", some)
	}
}

func TestTokensAreMadeAndEnded(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": "one"}
	const asked = `{"reason": "a test", "with": {"role": "operator", "expires": "1h"}}`
	var made [2]struct {
		Repeated bool
		Detail   acts.NewToken
	}
	for i := range made {
		response, body := s.call(t, auth.Admin, http.MethodPost, "/api/v1/tokens/eve/create", asked, header)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", response.Status, body)
		}
		if err := json.Unmarshal([]byte(body), &made[i]); err != nil {
			t.Fatal(err)
		}
	}
	if made[0].Detail.Token == "" || made[0].Repeated || made[1].Detail.Token != "" || !made[1].Repeated {
		t.Errorf("made %+v", made)
	}
	s.tokens[auth.Nobody] = made[0].Detail.Token
	if _, body := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "", nil); !strings.Contains(body,
		`"name":"eve"`) || !strings.Contains(body, `"role":"operator"`) {
		t.Errorf("with the token one is %s", body)
	}
	s.act(t, "/api/v1/tokens/eve/create", `{"with": {"role": "viewer"}}`, http.StatusConflict)
	s.act(t, "/api/v1/tokens/joe/create", `{"with": {"role": "king"}}`, http.StatusBadRequest)
	s.act(t, "/api/v1/tokens/eve/revoke", `{"reason": "gone"}`, http.StatusOK)
	if got := scan[string](t, s.pool, lastAct); got != "token_revoked admin gone" {
		t.Errorf("the log ends with %q", got)
	}
	if response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "",
		nil); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a token that was revoked it is answered %s", response.Status)
	}
	s.act(t, "/api/v1/tokens/eve/revoke", "", http.StatusNotFound)
}

func TestRemovalsAreConfirmedByTheName(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	s.act(t, "/api/v1/groups/default/remove", `{"with": {"confirm": "default"}}`, http.StatusConflict)
	s.act(t, "/api/v1/projections/notes/remove", `{"with": {"confirm": "yes"}}`, http.StatusUnprocessableEntity)
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.projections`); n != 1 {
		t.Errorf("%d projections are left", n)
	}
	s.act(t, "/api/v1/projections/notes/remove", `{"reason": "over", "with": {"confirm": "notes", "tables": true}}`,
		http.StatusOK)
	if got := scan[string](t, pool, lastAct); got != "projection_removed admin over" ||
		scan[bool](t, pool, `SELECT to_regclass('notes') IS
		NOT NULL`) {
		t.Errorf("the log ends with %q", got)
	}
	s.act(t, "/api/v1/projections/notes/remove", `{"with": {"confirm": "notes"}}`, http.StatusNotFound)
	s.act(t, "/api/v1/groups/default/remove", `{"with": {}}`, http.StatusUnprocessableEntity)
	s.act(t, "/api/v1/groups/default/remove", `{"reason": "over", "with": {"confirm": "default"}}`, http.StatusOK)
	if got := scan[string](t, pool, lastAct); got != "group_removed admin over" ||
		scan[int](t, pool, `SELECT count(*) FROM tidemark.consumer_groups`) != 0 {
		t.Errorf("the log ends with %q", got)
	}
	s.act(t, "/api/v1/groups/default/remove", `{"with": {"confirm": "default"}}`, http.StatusNotFound)
}

// memory is a sink that keeps the ids of its events. It first calls meanwhile, unless that is nil.
type memory struct {
	mu        sync.Mutex
	ids       []string
	meanwhile func(n int) error
}

func (m *memory) Name() string { return "memory" }

func (m *memory) Publish(_ context.Context, events []publisher.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meanwhile != nil {
		if err := m.meanwhile(len(m.ids)); err != nil {
			return err
		}
	}
	for _, e := range events {
		m.ids = append(m.ids, fmt.Sprint(e.CampaignID, " ", e.Seq))
	}
	return nil
}

func (m *memory) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ids)
}

// newest reads the operation that was started last.
const newest = `SELECT concat_ws(' ', kind, state, 'done', done, 'failed', failed, error) FROM tidemark.operations
	ORDER BY id DESC LIMIT 1`

func TestOneEventIsRequeuedForAllThatFailedAtIt(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": "one"}
	s.act(t, "/api/v1/campaigns/b%2F1/events/1/requeue", `{"with": {"group": "other"}}`, http.StatusNotFound)
	s.act(t, "/api/v1/campaigns/b%2F1/events/2/requeue", "", http.StatusNotFound)
	s.act(t, "/api/v1/campaigns/b%2F1/events/0/requeue", "", http.StatusBadRequest)
	for _, want := range []string{`"repeated":false`, `"repeated":true`} {
		response, body := s.call(t, auth.Operator, http.MethodPost, "/api/v1/campaigns/b%2F1/events/1/requeue",
			`{"reason": "mended"}`, header)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, want) ||
			!strings.Contains(body, `"projections":["notes"]`) {
			t.Errorf("%s %s, want %s", response.Status, body, want)
		}
	}
	if got := scan[string](t, pool, `SELECT concat_ws(' ', act, actor, reason, campaign_id, seq, way, address,
		token_id > 0) FROM tidemark.operator_log ORDER BY id DESC
		LIMIT 1`); got != "failed_requeued operator mended b/1 1 api 127.0.0.1 t" {
		t.Errorf("the log ends with %q", got)
	}
	if got := scan[string](t, pool, `SELECT status FROM tidemark.failed WHERE campaign_id = 'b/1'`); got != "failed" {
		t.Errorf("the pair is %s", got)
	}
}
