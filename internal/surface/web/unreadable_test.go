package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

// TestAnEventThatCannotBeReadIsShownByItsPlace covers the API and the pages.
func TestAnEventThatCannotBeReadIsShownByItsPlace(t *testing.T) {
	t.Parallel()
	pool, acts := database(t)
	unreadable.Write(t, pool, "a", "noted", unreadable.Damaged) // event 3
	exec(t, pool, `SELECT tidemark.append('a', '[{"type": "noted"}]');
		INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('only', 's', 1);
		INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, event_id, status, first_failed_at)
		SELECT 'only', 's', 'a', 3, true, position, event_id, 'parked', now() FROM tidemark.journal WHERE campaign_id = 'a'
			AND seq = 3`)
	s := serveOn(t, pool, acts, nil)
	var before, at string
	if err := pool.QueryRow(t.Context(), `SELECT (position - 1)::text, position::text FROM tidemark.journal
		WHERE campaign_id = 'a' AND seq = 3`).Scan(&before, &at); err != nil {
		t.Fatal(err)
	}
	const reason = "cannot be read: Postgres cannot print its payload or metadata"
	for _, tt := range []struct {
		path   string
		role   auth.Role
		status int
		says   []string
	}{
		{"/api/v1/campaigns/a/events", auth.Operator, http.StatusOK, []string{reason, `"seq":4`, `"unreadable":null`}},
		{"/api/v1/campaigns/a/events", auth.Viewer, http.StatusOK, []string{`"seq":3`, `"seq":4`}},
		{"/api/v1/events?type=noted", auth.Operator, http.StatusOK, []string{reason, `"seq":4`}},
		{"/api/v1/campaigns/a/events/3", auth.Operator, http.StatusUnprocessableEntity, []string{reason}},
		{"/api/v1/events/export?campaign=a", auth.Operator, http.StatusOK, []string{`"s3cret"`, `"payload":{}`}},
		{"/api/v1/events/export?after=" + before, auth.Operator, http.StatusUnprocessableEntity, []string{reason, at}},
		{"/api/v1/events/export?after=" + at, auth.Operator, http.StatusOK, []string{`"payload":{}`}},
		{"/campaign?id=a&seq=3", auth.Operator, http.StatusOK, []string{reason}},
		{"/event?campaign=a&seq=2", auth.Operator, http.StatusOK, []string{"seq=3"}},
		{"/event?campaign=a&seq=3", auth.Operator, http.StatusOK, []string{reason, "seq=4"}},
		{"/event/payload?campaign=a&seq=3", auth.Operator, http.StatusUnprocessableEntity, []string{reason}},
	} {
		response, body := s.call(t, tt.role, http.MethodGet, tt.path, "", nil)
		for _, want := range tt.says {
			if response.StatusCode != tt.status || !strings.Contains(body, want) {
				t.Errorf("%s as %s answers %d, want %d and %q", tt.path, tt.role, response.StatusCode, tt.status, want)
				t.Log(body)
			}
		}
	}
}
