package outbox_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Campaign a has three events. Group g has applied one, and its lease is live. Campaign b has two
// events: g has applied none, h both. Campaign c has two events, applied by g, except that
// projection p stopped at the second, and q and r at the first. The retry of p is due, that of r is
// not, and q waits for an operator. Campaign d has one event. p has caught up with it, but its row
// is still there.
const inspected = `
	INSERT INTO tidemark.consumer_groups (name) VALUES ('g'), ('h');
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
	VALUES ('p', 'g', 1, 'public', '{p}', 'active'), ('q', 'g', 1, 'public', '{q}', 'active'),
		('r', 'g', 1, 'public', '{r}', 'active');
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT c, s, row_number() OVER (), gen_random_uuid(), c || s, 1, 'projection_and_replay', '{}', 0, now(),
		now() - make_interval(hours => h)
	FROM (VALUES ('a', 1, 9), ('a', 2, 8), ('a', 3, 7), ('b', 1, 5), ('b', 2, 4), ('c', 1, 11), ('c', 2, 10),
		('d', 1, 1)) AS e (c, s, h);
	INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
	SELECT 'g', campaign_id, seq, recorded_at, 1 FROM tidemark.journal
		WHERE (campaign_id, seq) IN (('a', 2), ('a', 3), ('b', 1), ('b', 2));
	INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
	VALUES ('g', 'a', 'worker', 1, now() + interval '1 hour', 1), ('g', 'c', 'worker', 1, '-infinity', 2),
		('g', 'd', 'worker', 1, '-infinity', 1),
		 ('h', 'b', 'worker', 1, '-infinity', 2);
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
		next_attempt_at, error_message)
	VALUES ('c', 'p', 'g', 2, 'failed', 3, now() - interval '1 minute', 'bad payload'),
		('c', 'q', 'g', 1, 'dead', 8, now(), 'worse payload'),
		('c', 'r', 'g', 1, 'failed', 1, now() + interval '1 minute', 'no payload'),
			('d', 'p', 'g', 2, 'catching_up', 0, now() + interval '1 second', NULL);
`

func TestReportCountsEachStatusAndNamesTheOldestEntry(t *testing.T) {
	t.Parallel()
	groups, err := outbox.Report(t.Context(), inspectedDB(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 2 || groups[0].Group != "g" || groups[1].Group != "h" {
		t.Fatalf("got %+v, want groups g and h", groups)
	}
	g, h := groups[0], groups[1]
	if got := [5]int64{g.Pending, g.Processing, g.Failed, g.Dead, g.CatchingUp}; got != [5]int64{2, 2, 2, 1, 1} {
		t.Errorf("got counts %v for group g", got)
	}
	if g.Oldest == nil || g.Oldest.CampaignID != "c" || g.Oldest.Seq != 2 || g.Oldest.Projection != "p" ||
		g.At.Sub(g.Oldest.Since).Round(time.Minute) != 10*time.Hour {
		t.Errorf("got oldest %+v of group g, want event 2 of campaign c, ten hours ago: event 1 is not to be taken now",
			g.Oldest)
	}
	if h.Pending != 0 || h.Oldest != nil {
		t.Errorf("got %+v for group h, which has nothing to do", h)
	}
}

func TestListFiltersAndOrders(t *testing.T) {
	t.Parallel()
	pool := inspectedDB(t)
	tests := []struct {
		name   string
		filter outbox.Filter
		want   []string // event types
	}{
		{"everything", outbox.Filter{}, []string{"a2", "a3", "b1", "b2", "c2", "c1", "c1", ""}},
		{"by status", outbox.Filter{Status: outbox.Processing}, []string{"a2", "a3"}},
		{"by campaign", outbox.Filter{CampaignID: "b"}, []string{"b1", "b2"}},
		{"by both", outbox.Filter{CampaignID: "c", Status: outbox.Dead}, []string{"c1"}},
		{"up to a limit", outbox.Filter{Limit: 3}, []string{"a2", "a3", "b1"}},
		{"nothing", outbox.Filter{CampaignID: "z"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entries, err := outbox.List(t.Context(), pool, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.EventType)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestListSaysWhyAProjectionIsBehind(t *testing.T) {
	t.Parallel()
	entries, err := outbox.List(t.Context(), inspectedDB(t), outbox.Filter{CampaignID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	failed, dead := entries[0], entries[1]
	if failed.Status != outbox.Failed || failed.Attempts != 3 || failed.Error != "bad payload" ||
		failed.NextAttemptAt.IsZero() {
		t.Errorf("got %+v", failed)
	}
	if dead.Status != outbox.Dead || !dead.NextAttemptAt.IsZero() {
		t.Errorf("got %+v, want no next attempt", dead)
	}
}

func TestLagCountsWhatIsNotApplied(t *testing.T) {
	t.Parallel()
	lags, err := outbox.Lag(t.Context(), inspectedDB(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range lags {
		lags[i].Age = lags[i].Age.Round(time.Minute)
	}
	want := []outbox.Behind{
		{Group: "g", Events: 4, Campaigns: 2, Age: 8 * time.Hour},
		{Group: "g", Projection: "p", Events: 5, Campaigns: 3, Age: 10 * time.Hour},
		{Group: "g", Projection: "q", Events: 6, Campaigns: 3, Age: 11 * time.Hour},
		{Group: "g", Projection: "r", Events: 6, Campaigns: 3, Age: 11 * time.Hour},
		{Group: "h"},
	}
	if !reflect.DeepEqual(lags, want) {
		t.Errorf("got  %+v\nwant %+v", lags, want)
	}
}

func TestAnItemIsOfAllEventsOfItsAppend(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	register(t, pool, "g")
	mustAppend(t, pool, "a", 5)
	mustAppend(t, pool, "a", 2)
	mustAppend(t, pool, "b", 1)
	exec(t, pool, `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ('g', 'a', '', 1, '-infinity', 3)`)
	groups, err := outbox.Report(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if g := groups[0]; g.Pending != 5 || g.Oldest == nil || g.Oldest.CampaignID != "a" || g.Oldest.Seq != 4 ||
		g.Oldest.Events != 4 || g.Oldest.EventType != "noted" {
		t.Errorf("got %+v, the oldest %+v, want 5 events, the oldest the fourth of a with three behind it", g, g.Oldest)
	}
	list, err := outbox.List(t.Context(), pool, outbox.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var paged []outbox.Entry
	for next, more := (*outbox.Place)(nil), true; more; more = next != nil {
		var page []outbox.Entry
		if page, next, err = outbox.Page(t.Context(), pool, outbox.Filter{Limit: 1}, next); err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page...)
	}
	for name, entries := range map[string][]outbox.Entry{"list": list, "pages": paged} {
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprint(e.CampaignID, e.Seq, " ", e.Events, " ", e.EventType))
		}
		if want := []string{"a4 2 noted", "a6 2 noted", "b1 1 noted"}; !reflect.DeepEqual(got, want) {
			t.Errorf("the %s has %q, want %q", name, got, want)
		}
	}
}

func inspectedDB(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), inspected); err != nil {
		t.Fatal(err)
	}
	return pool
}

func TestWhatIsPausedIsNotShownAsBeingProcessed(t *testing.T) {
	t.Parallel()
	const campaign = `INSERT INTO tidemark.leases VALUES ('g', 'b', 'paused', 1, 'infinity', 0)`
	const projection = `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('projection', 'g', 'p', '', '')`
	const group = `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		VALUES ('group', 'g', '', '', '')`
	for name, test := range map[string]struct {
		paused string
		counts [3]int64 // pending, processing, paused
		oldest string
		listed []string // event types of the paused entries
	}{
		"a campaign":      {campaign, [3]int64{0, 2, 2}, "c2", []string{"b1", "b2"}},
		"a projection":    {projection, [3]int64{2, 2, 0}, "b1", nil},
		"the whole group": {group, [3]int64{0, 2, 2}, "", []string{"b1", "b2"}},
		"no longer":       {group + `; UPDATE tidemark.pauses SET expires_at = now()`, [3]int64{2, 2, 0}, "c2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := inspectedDB(t)
			if _, err := pool.Exec(t.Context(), test.paused); err != nil {
				t.Fatal(err)
			}
			groups, err := outbox.Report(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			g := groups[0]
			oldest := ""
			if g.Oldest != nil {
				oldest = g.Oldest.EventType
			}
			if got := [3]int64{g.Pending, g.Processing, g.Paused}; got != test.counts || oldest != test.oldest {
				t.Errorf("got counts %v and oldest %q, want %v and %q", got, oldest, test.counts, test.oldest)
			}
			entries, err := outbox.List(t.Context(), pool, outbox.Filter{Status: outbox.Paused})
			if err != nil {
				t.Fatal(err)
			}
			var listed []string
			for _, e := range entries {
				listed = append(listed, e.EventType)
			}
			if !reflect.DeepEqual(listed, test.listed) {
				t.Errorf("listed %q, want %q", listed, test.listed)
			}
		})
	}
}
