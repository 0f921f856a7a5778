package web_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// try makes a dry run and returns its detail.
func (s *served) try(t *testing.T, path, with string) string {
	t.Helper()
	var outcome struct {
		Act    string
		Detail json.RawMessage
	}
	body := s.act(t, "/api/v1"+path, `{"with": `+with+`}`, http.StatusOK)
	if err := json.Unmarshal([]byte(body), &outcome); err != nil || outcome.Act != "dry_run" {
		t.Errorf("%s %s is answered %s", path, with, body)
	}
	return string(outcome.Detail)
}

func TestDryRunsSayWhatWouldBeAndChangeNothing(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	exec(t, pool, `SELECT tidemark.append('a', '[{"type": "other"}, {"type": "noted"}]')`)
	if _, err := acting.Projector.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `DELETE FROM tidemark.pauses`)
	sink := &memory{}
	acting.Topics = []publisher.Topic{{Name: "t", Filter: publisher.Filter{EventTypes: []string{"noted"}}}}
	acting.Publishers = []publisher.Publisher{{Name: "s", Sink: sink, Topics: []string{"t"}}}
	s := serveOn(t, pool, acting, nil)
	elsewhere := serveOther(t, s)
	before := scan[string](t, pool, everything)
	for _, c := range []struct{ path, with, want string }{
		{"/publishers/t/s/replay", `{"dry_run": true, "campaign": "a", "from": 2}`, `{"from":2,"through":4,"events":2}`},
		{
			"/publishers/t/s/replay", `{"dry_run": true, "campaign": "a", "from": 2, "until": 3}`,
			`{"from":2,"through":3,"events":1}`,
		},
		{"/projections/notes/remove", `{"dry_run": true}`, `{"group":"default","projection":"notes","campaigns":1,"tables":[]}`},
		{
			"/projections/notes/remove", `{"dry_run": true, "tables": true}`,
			`{"group":"default","projection":"notes","campaigns":1,"tables":["tidemark_views.notes"]}`,
		},
		{"/campaigns/a/replay", `{"dry_run": true, "group": "default"}`, `{"campaigns":1}`},
		{"/groups/default/replay", `{"dry_run": true, "projection": "notes"}`, `{"campaigns":2}`},
		{"/groups/default/repair-gaps", `{"dry_run": true}`, `{"count":0,"sample":[]}`},
	} {
		if got := s.try(t, c.path, c.with); got != c.want {
			t.Errorf("%s %s would do %s, want %s", c.path, c.with, got, c.want)
		}
	}
	for call, want := range map[string]int{
		`/groups/default/remove`:        http.StatusConflict,
		`/groups/nobody/remove`:         http.StatusNotFound,
		`/projections/nobody/remove`:    http.StatusNotFound,
		`/groups/nobody/replay`:         http.StatusNotFound,
		`/publishers/t/s/replay`:        http.StatusBadRequest,
		`/publishers/nothing/s/replay`:  http.StatusBadRequest,
		`/campaigns/a/replay`:           http.StatusBadRequest,
		`/publishers/nothing/s/reset`:   http.StatusNotFound,
		`/projections/nobody/rebuild`:   http.StatusBadRequest, // has no dry run
		`/publishers/t/s/pause`:         http.StatusBadRequest,
		`/failed/notes/b%2F1/requeue`:   http.StatusBadRequest,
		`/projections/notes/rollback`:   http.StatusBadRequest,
		`/parked/t/s/a/1/retry`:         http.StatusBadRequest,
		`/campaigns/a/events/1/requeue`: http.StatusBadRequest,
		`/groups/nobody/repair-gaps`:    http.StatusNotFound,
		`/failed/requeue`:               http.StatusBadRequest, // must say that it means all
	} {
		s.act(t, "/api/v1"+call, `{"with": {"dry_run": true}}`, want)
	}
	for with, want := range map[string]int{
		`"campaign": "a", "from": 9`:             http.StatusNotFound,
		`"campaign": "nobody", "from": 1`:        http.StatusNotFound,
		`"campaign": "a", "from": 3, "until": 2`: http.StatusBadRequest,
	} {
		s.act(t, "/api/v1/publishers/t/s/replay", `{"with": {"dry_run": true, `+with+`}}`, want)
	}
	s.act(t, "/api/v1/campaigns/nobody/replay", `{"with": {"dry_run": true, "group": "default"}}`, http.StatusNotFound)
	if got := elsewhere.try(t, "/publishers/t/s/replay", `{"dry_run": true, "campaign": "a", "from": 1}`); got !=
		`{"from":1,"through":4,"events":null}` {
		t.Errorf("where the topic is not known it would do %s", got)
	}
	for path, role := range map[string]auth.Role{
		"/publishers/t/s/replay":    auth.Viewer,
		"/projections/notes/remove": auth.Operator,
	} {
		if response, _ := s.call(t, role, http.MethodPost, "/api/v1"+path, `{"with": {"dry_run": true}}`,
			nil); response.StatusCode != http.StatusForbidden {
			t.Errorf("a dry run of %s by %s is answered %s", path, role, response.Status)
		}
	}
	if scan[string](t, pool, everything) != before || len(sink.taken()) > 0 ||
		scan[bool](t, pool, `SELECT to_regclass('notes') IS
		NULL`) {
		t.Error("a dry run has changed something, or sent something")
	}
	exec(t, pool, `DELETE FROM tidemark.failed`)
	s.act(t, "/api/v1/projections/notes/remove", `{"with": {"confirm": "notes"}}`, http.StatusOK)
	if got := s.try(t, "/groups/default/remove",
		`{"dry_run": true}`); got != `{"group":"default","projection":null,"campaigns":0,"tables":[]}` {
		t.Errorf("removing the group would do %s", got)
	}
}

// serveOther serves the same database from a worker without code and sinks.
func serveOther(t *testing.T, s *served) *served {
	t.Helper()
	exec(t, s.pool, `UPDATE tidemark.tokens SET name = 'first ' || name`)
	return serveOn(t, s.pool, admin.Config{}, nil)
}
