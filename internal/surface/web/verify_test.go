package web_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
)

func TestACampaignIsVerifiedRowByRow(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	exec(t, pool, `UPDATE notes SET doc = '{"count": 99}' WHERE campaign_id = 'a'`)
	hidden, err := payload.ParsePaths("$..count")
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, pool, acting, nil)
	compare := func(s *served, role auth.Role, query string) (status int, body string) {
		response, body := s.call(t, role, http.MethodGet, "/api/v1/campaigns/a/verify?"+query, "", nil)
		return response.StatusCode, body
	}
	status, body := compare(s, auth.Operator, "projection=notes")
	var found struct {
		Item struct {
			Differences []struct {
				Kind, Table string
				Columns     []string
				Want, Got   struct{ Doc notes }
			}
			NotShown int `json:"not_shown"`
		}
	}
	if err := json.Unmarshal([]byte(body), &found); err != nil {
		t.Fatal(err, body)
	}
	if d := found.Item.Differences; status != http.StatusOK || len(d) != 1 || d[0].Kind != "different" ||
		d[0].Table != "notes" || !slices.Equal(d[0].Columns, []string{"doc"}) || d[0].Want.Doc.Count != 2 ||
		d[0].Got.Doc.Count != 99 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := compare(s, auth.Operator, "projection=notes&ignore=doc"); status != http.StatusOK ||
		!strings.Contains(body, `"differences":[]`) {
		t.Errorf("without the column it is %d %s", status, body)
	}
	for query, want := range map[string]int{
		"": http.StatusBadRequest, "projection=nothing": http.StatusBadRequest,
		"projection=notes&limit=0": http.StatusBadRequest,
	} {
		if status, body := compare(s, auth.Operator, query); status != want {
			t.Errorf("%q is answered %d, want %d: %s", query, status, want, body)
		}
	}
	if status, _ := compare(s, auth.Viewer, "projection=notes"); status != http.StatusForbidden {
		t.Errorf("a viewer is answered %d", status)
	}
	exec(t, pool, `DELETE FROM tidemark.tokens; INSERT INTO notes (campaign_id, key, doc)
		SELECT 'a', 'x' || i, '{"count": 99}' FROM generate_series(1, 4) i`)
	redacting := serveOn(t, pool, acting, func(c *web.Config) { c.Payloads.Redact = hidden })
	if status, body := compare(redacting, auth.Admin, "projection=notes&limit=3"); status != http.StatusOK ||
		strings.Contains(body, "99") || !strings.Contains(body, `"not_shown":2`) {
		t.Errorf("what is redacted is shown: %d %s", status, body)
	}
}

func TestWhyNamesTheEventsThatWroteARow(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	call := "/api/v1/campaigns/a/why?projection=notes&table=notes&key=" + scan[string](t, pool, `SELECT key FROM notes
		WHERE campaign_id = 'a'`)
	_, body := s.call(t, auth.Operator, http.MethodGet, call, "", nil)
	var why struct {
		Item struct {
			Row    map[string]any
			Causes []struct {
				Column string
				Event  struct{ Seq int }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &why); err != nil {
		t.Fatal(err)
	}
	wrote := map[string]int{}
	for _, c := range why.Item.Causes {
		wrote[c.Column] = c.Event.Seq
	}
	if why.Item.Row == nil || wrote["doc"] != 2 {
		t.Errorf("it answers %s", body)
	}
	if response, body := s.call(t, auth.Viewer, http.MethodGet, call, "",
		nil); response.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer sees %s", body)
	}
}
