package pages_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// TestThePagesSayHowAPublisherFails covers pairs that fail, that fail and are paused, and that have
// ghosts.
func TestThePagesSayHowAPublisherFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, sql := range []string{
		`INSERT INTO tidemark.readers (topic, publisher, position, status, reason, actor, error_count, last_error,
			last_error_at, failing_since, next_attempt_at) VALUES
			('t', 'failing', 0, 'ACTIVE', NULL, NULL, 153, 'refused', now(), '2026-01-02 03:04:05+00', now() + interval '4 s'),
			('t', 'paused', 0, 'PAUSED', 'a move', 'anna', 153, 'refused', now(), '2026-01-02 03:04:05+00',
				now() + interval '4 s'),
			('t', 'many', 0, 'ACTIVE', NULL, NULL, 0, NULL, NULL, NULL, '-infinity')`,
		`INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status)
			SELECT 't', 'many', 'c' || i, 1, true, i, 'parked'
			FROM generate_series(1, 10001) i`,
		`INSERT INTO tidemark.ghosts (topic, publisher, campaign_id, event_id, seq, position)
			SELECT 't', 'many', 'c', gen_random_uuid(), i, i FROM generate_series(1, 17) i`,
	} {
		if _, err := w.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var events int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.journal`).Scan(&events); err != nil {
		t.Fatal(err)
	}
	tags := regexp.MustCompile(`<[^>]*>|\s+`)
	for _, tt := range []struct {
		path           string
		says, saysNone []string
	}{
		{
			"/publishers",
			[]string{fmt.Sprint("failing t failing 0 ", events), "153 0 0 since 2026-01-02T03:04:05Z: refused", "10,000+"},
			[]string{"active 153"},
		},
		{"/publishers/pair?topic=t&publisher=failing", []string{
			"failing", "153, since 2026-01-02 03:04", "tried again",
			"Behind " + fmt.Sprint(events) + " events of the journal",
		}, []string{"Ghosts"}},
		{
			"/publishers/pair?topic=t&publisher=paused",
			[]string{"paused", "153, since 2026-01-02 03:04"},
			[]string{"tried again", "paused of t failing"},
		},
		{"/publishers/pair?topic=t&publisher=many", []string{
			"Ghosts 17 sent but missing from the journal",
			"tidemark publisher ghosts many", "at least 10,000",
		}, nil},
	} {
		code, body := w.get(t, auth.Viewer, tt.path)
		text := strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, " "))), " ")
		text = strings.ReplaceAll(text, " ,", ",")
		for _, want := range tt.says {
			if code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s answers %d and does not say %q:\n%s", tt.path, code, want, text)
			}
		}
		for _, not := range tt.saysNone {
			if strings.Contains(text, not) {
				t.Errorf("%s says %q:\n%s", tt.path, not, text)
			}
		}
	}
}
