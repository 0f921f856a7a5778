package failed_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// fillFailures writes n failed campaigns of two projections, two thirds of them dead, with three
// causes.
func fillFailures(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	const fill = `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at, error_class, error_code, error_message, fingerprint, first_failed_at, last_failed_at)
		SELECT 'c' || lpad(i::text, 6, '0'), CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, 'default', 1, CASE
			WHEN i % 3 = 0 THEN 'failed' ELSE 'dead' END,
			CASE WHEN i % 3 = 0 THEN now() + i * interval '1 s'
				ELSE 'infinity' END, 'permanent', (i % 3)::text, 'message ' || i % 3, 'f' || i % 3, now(), now()
		FROM generate_series(1, $1) AS i`
	if _, err := pool.Exec(t.Context(), fill, n); err != nil {
		t.Fatal(err)
	}
}

func TestCausesCountEachCauseUpToTheBound(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fillFailures(t, pool, 300)
	type row struct {
		projection, fingerprint string
		failed, dead            int64
	}
	read := func(f failed.CauseFilter) (rows []row, last *failed.CauseKey) {
		t.Helper()
		causes, err := failed.Causes(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range causes {
			if c.Message != "message "+c.Fingerprint[1:] || c.CampaignID == "" {
				t.Errorf("the sample of %+v is of another cause", c)
			}
			rows = append(rows, row{c.Projection, c.Fingerprint, c.Failed, c.Dead})
			last = &failed.CauseKey{Projection: c.Projection, Fingerprint: c.Fingerprint}
		}
		return rows, last
	}
	equal := func(got []row, want ...row) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("causes are %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("cause %d is %v, want %v", i, got[i], want[i])
			}
		}
	}
	all, _ := read(failed.CauseFilter{})
	equal(all, row{"even", "f0", 50, 0}, row{"even", "f1", 0, 50}, row{"even", "f2", 0, 50}, row{"odd", "f0", 50, 0},
		row{"odd", "f1", 0, 50}, row{"odd", "f2", 0, 50})
	first, place := read(failed.CauseFilter{Limit: 4})
	equal(first, all[:4]...)
	rest, _ := read(failed.CauseFilter{Limit: 4, After: place})
	equal(rest, all[4:]...)
	one, place := read(failed.CauseFilter{Projection: "odd", Fingerprint: "f1"})
	equal(one, all[4])
	earlier := all[1] // a place of a list with other filters
	one, _ = read(failed.CauseFilter{
		Projection: "odd", Fingerprint: "f1",
		After: &failed.CauseKey{Projection: earlier.projection, Fingerprint: earlier.fingerprint},
	})
	equal(one, all[4])
	for name, none := range map[string]failed.CauseFilter{
		"after the one asked for": {Projection: "odd", Fingerprint: "f1", After: place},
		"before the first":        {Projection: "odd", Fingerprint: "e"},
		"of another projection":   {Projection: "none", Fingerprint: "f1"},
	} {
		if causes, _ := read(none); len(causes) > 0 {
			t.Errorf("%s: causes are %v, want none", name, causes)
		}
	}
	both, _ := read(failed.CauseFilter{Fingerprint: "f1"})
	equal(both, all[1], all[4])
	pool = pgtest.New(t)
	fillFailures(t, pool, 6*failed.CauseBound+60)
	counted, _ := read(failed.CauseFilter{Projection: "odd"})
	equal(counted, row{"odd", "f0", failed.CauseBound, 0}, row{"odd", "f1", 0, failed.CauseBound},
		row{"odd", "f2", 0, failed.CauseBound})
}

func TestSearchLooksAtNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fillFailures(t, pool, 600)
	for name, f := range map[string]failed.Filter{
		"by an index":      {Projection: "odd", Fingerprint: "f1"},
		"by looking":       {Code: "1", Projection: "odd"},
		"everything":       {},
		"what is not":      {EventType: "none"},
		"of one campaign":  {CampaignID: "c000007"},
		"of one that died": {Status: []failed.Status{failed.Dead}, Code: "2"},
	} {
		status := f.Status
		if status == nil {
			status = []failed.Status{failed.Failed, failed.Dead}
		}
		whole := f
		whole.Status, whole.Limit = status, 1000
		want, err := failed.List(t.Context(), pool, whole)
		if err != nil {
			t.Fatal(err)
		}
		var got []failed.Campaign
		f.Limit = 30
		for calls := 0; ; calls++ {
			page, end, err := failed.Search(t.Context(), pool, f, 70)
			if err != nil || calls > 50 {
				t.Fatalf("%s: call %d: %v", name, calls, err)
			}
			got = append(got, page...)
			if end == nil {
				break
			}
			f.After = end
		}
		if len(got) != len(want) {
			t.Fatalf("%s: the pages have %d pairs, want %d", name, len(got), len(want))
		}
		for i := range got {
			if got[i].Key != want[i].Key {
				t.Errorf("%s: pair %d is %v, want %v", name, i, got[i].Key, want[i].Key)
			}
		}
	}
	if _, _, err := failed.Search(t.Context(), pool, failed.Filter{Status: []failed.Status{failed.CatchingUp}},
		10); err == nil {
		t.Error("pairs that are being rebuilt are searched")
	}
}

func TestLastOfACauseIsTheLastOfItsCampaigns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fillFailures(t, pool, 60)
	if _, err := pool.Exec(t.Context(), `UPDATE tidemark.failed AS d SET
			first_failed_at = timestamptz '2026-01-01 00:00Z' + (100 - n) * interval '1 h',
			last_failed_at = timestamptz '2026-02-01 00:00Z' + (CASE WHEN n % 2 = 0 THEN n ELSE 100 - n END) * interval '1 h'
		FROM (SELECT campaign_id AS id, substr(campaign_id, 2)::integer AS n FROM tidemark.failed) AS o
		WHERE o.id = d.campaign_id`); err != nil {
		t.Fatal(err)
	}
	causes, err := failed.Causes(t.Context(), pool, failed.CauseFilter{})
	if err != nil || len(causes) != 6 {
		t.Fatal(causes, err)
	}
	for _, c := range causes {
		var first, last time.Time
		if err := pool.QueryRow(t.Context(), `SELECT min(first_failed_at), max(last_failed_at) FROM tidemark.failed
			WHERE projection = $1 AND fingerprint = $2`, c.Projection, c.Fingerprint).Scan(&first, &last); err != nil {
			t.Fatal(err)
		}
		if !c.FirstFailedAt.Equal(first) || !c.LastFailedAt.Equal(last) {
			t.Errorf("%s of %s failed from %s to %s, want %s to %s", c.Fingerprint, c.Projection, c.FirstFailedAt,
				c.LastFailedAt, first, last)
		}
	}
}
