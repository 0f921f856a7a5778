package outbox_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// 30,000 work items of 3,000 campaigns, a tenth of them leased and another tenth paused. 20,000
// campaigns are behind for p: two failed, the others catching up. Three are dead for q.
const plenty = `
	INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'ready'), ('idle', 'ready');
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
	VALUES ('p', 'g', 1, 'public', '{}', 'active'), ('q', 'g', 1, 'public', '{}', 'active');
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'c' || c, s, row_number() OVER (), gen_random_uuid(), 'noted', 1, 'projection_and_replay', '{}', 2, now(),
		now() - make_interval(hours => 20 - s)
	FROM generate_series(1, 12) AS s, generate_series(1, 3000) AS c;
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'd' || c, 1, 100000 + c, gen_random_uuid(), 'noted', 1, 'projection_and_replay', '{}', 2, now(),
		now() - interval '2 days' FROM generate_series(1, 17000) AS c;
	INSERT INTO tidemark.outbox SELECT 'g', campaign_id, seq, recorded_at, 1 FROM tidemark.journal WHERE seq > 2;
	INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
	SELECT 'g', 'c' || c, CASE c % 10 WHEN 1 THEN 'paused' ELSE 'w' END, 1, CASE
		WHEN c % 10 < 2 THEN now() + interval '1 hour' ELSE '-infinity' END, 2 FROM generate_series(1, 3000) AS c
	UNION ALL SELECT 'g', 'd' || c, 'w', 1, '-infinity', 1 FROM generate_series(1, 17000) AS c;
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, error_class,
		first_failed_at, next_attempt_at)
	SELECT l.campaign_id, 'p', 'g', 1, 'catching_up', NULL, NULL, now() + interval '1 hour' FROM tidemark.leases l
		WHERE l.campaign_id NOT IN ('c1', 'c2')
	UNION ALL SELECT 'c' || c, 'p', 'g', 2, 'failed', 'transient', now() - interval '3 hours', now() + interval '1 hour'
		FROM generate_series(1, 2) AS c
	UNION ALL SELECT 'c' || c, 'q', 'g', 1, 'dead', 'permanent', now() - interval '1 hour' * c, 'infinity'
		FROM generate_series(1, 3) AS c;
`

// near reports whether an estimate is within a tenth of the true count.
func near(got, want int64) bool { return math.Abs(float64(got-want)) <= float64(want)/10 }

func TestEstimatesAreNearWhatIsCounted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	groups, err := outbox.Report(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	g, idle := groups[0], groups[1]
	if !g.Estimated || !near(g.Pending, 24_000) || !near(g.Processing, 3000) || !near(g.Paused, 3000) ||
		!near(g.CatchingUp, 19_998) || g.Failed != 2 || g.Dead != 3 {
		t.Errorf("got %+v, want about 24,000, 3,000, 3,000 and 19,998, and 2 and 3", g)
	}
	if g.Oldest == nil || g.At.Sub(g.Oldest.Since).Hours() < 16.9 {
		t.Errorf("the oldest is %+v, want one of 17 hours ago", g.Oldest)
	}
	if idle.Estimated || idle.Pending != 0 || idle.Oldest != nil {
		t.Errorf("got %+v of a group that has nothing to do", idle)
	}

	lags, err := outbox.Lag(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		events, campaigns int64
		hours             float64
		estimated         bool
	}{
		{30_000, 3000, 17, true},
		{30_000 + 2*2998 + 2 + 17_000, 20_000, 48, true},
		{30_000 + 6, 3000, 19, true},
		{0, 0, 0, false},
	} {
		if l := lags[i]; !near(l.Events, want.events) || !near(l.Campaigns, want.campaigns) ||
			math.Abs(l.Age.Hours()-want.hours) > 0.1 || l.Estimated != want.estimated {
			t.Errorf("the lag of %s %s is %+v, want about %+v", l.Group, l.Projection, l, want)
		}
	}
}

// Counts and estimates of the same database must agree. The limit decides which of them a report
// returns.
func TestCountsAndEstimatesAreOfTheSame(t *testing.T) {
	t.Parallel()
	for name, outbox := range map[string]string{
		"an item each": "",
		"two items each of one that is applied in part": `
			TRUNCATE tidemark.outbox;
			INSERT INTO tidemark.outbox SELECT 'g', 'c' || c, s, now() - interval '17 hours', 6
				FROM unnest(ARRAY[6, 12]) AS s, generate_series(1, 3000) AS c`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if _, err := pool.Exec(t.Context(), plenty+outbox); err != nil {
				t.Fatal(err)
			}
			countsAndEstimatesAreOfTheSame(t, pool)
		})
	}
}

func countsAndEstimatesAreOfTheSame(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, exact := range []int{1000, 1_000_000} {
		for _, pages := range []int{24, 1_000_000} { // some, and all
			estimated := exact == 1000
			for query, want := range map[string]int64{
				"SELECT pending + processing + paused FROM tidemark.queue_report($1, $2) WHERE consumer_group = 'g'":         30_000,
				"SELECT processing FROM tidemark.queue_report($1, $2) WHERE consumer_group = 'g'":                            3000,
				"SELECT sum(events)::bigint FROM tidemark.lag_report($1, $2) WHERE projection = '' AND consumer_group = 'g'": 30_000,
				"SELECT sum(events)::bigint FROM tidemark.lag_report($1, $2) WHERE projection = 'p'":                         30_000 + 2*2998 + 2 + 17_000,
				"SELECT pairs FROM tidemark.failed_report($1, $2) WHERE status = 'catching_up'":                              19_998,
				"SELECT pairs FROM tidemark.failed_report($1, $2) WHERE status = 'dead' AND class = 'permanent' AND since < " +
					"now() - '2.9h'::interval": 3,
			} {
				got := one(t, pool, query, exact, pages)
				if got != want && (!estimated || pages == 24 && !near(got, want) || pages > 24) {
					t.Errorf("up to %d counted, %d pages: %s\nis %d, want %d", exact, pages, query, got, want)
				}
			}
		}
	}
}

func one(t *testing.T, pool *pgxpool.Pool, query string, args ...any) (n int64) {
	t.Helper()
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), query, args...).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}
