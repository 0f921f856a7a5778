package scheduled_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	report := func() scheduled.Report {
		t.Helper()
		r, err := scheduled.Counts(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	expect(t, "without appends", report(), scheduled.Report{})
	schedule(t, pool, "a", time.Hour, "later")
	expect(t, "with none that is due", report(), scheduled.Report{Pending: 1})
	scheduleEvents(t, pool, "b", -time.Hour, event.Event{
		Type: "long", Payload: json.RawMessage(`{"a": "` + strings.Repeat("x", 500) + `"}`),
	})
	schedule(t, pool, "c", -2*time.Hour, "due")
	r := report()
	if r.Pending != 3 || r.Overdue != 2 || r.Refused != 0 || r.OverdueFor < 2*time.Hour || r.OverdueFor > 3*time.Hour {
		t.Errorf("with two that are due: %+v", r)
	}
	exec(t, pool, `UPDATE tidemark.limits SET payload_bytes = 400`)
	fire(t, pool, scheduled.Look{})
	expect(t, "after a refusal", report(), scheduled.Report{Pending: 2, Refused: 1})
	exec(t, pool, `INSERT INTO tidemark.scheduled (campaign_id, due_at, attempt_at, events)
		SELECT 'd', due, due, '[]' FROM (SELECT now() + n * interval '1 s' AS due FROM generate_series(1, 30000) AS n) AS d`)
	r = report()
	if !r.Estimated || r.Pending < 25_000 || r.Pending > 35_000 || r.Refused != 1 {
		t.Errorf("with 30,000: %+v", r)
	}
}
