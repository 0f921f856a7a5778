package failed_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestStatistics(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for i := range 6 {
		fail(t, pool, failed.Dead, "p", fmt.Sprint("c", i), 1)
	}
	for i := range 2 {
		fail(t, pool, failed.Failed, "q", fmt.Sprint("c", i), 1)
	}
	rebuild(t, pool, "r", "c1", 1)
	exec(t, pool, `UPDATE tidemark.deferred SET event_type = 'rolled', error_class = 'transient', fingerprint = 'abc',
		error_message = 'dice' WHERE projection = 'q'`)
	exec(t, pool, `UPDATE tidemark.deferred SET first_failed_at = now() - interval '3 days' WHERE projection = 'p'
		AND campaign_id = 'c4'`)
	exec(t, pool, `INSERT INTO tidemark.failure_log (at, act, consumer_group, projection, campaign_id, error_message)
		SELECT now() - interval '10 minutes' * i, CASE WHEN i % 3 = 0 THEN 'requeued'
			ELSE 'failed' END, 'g', 'p', 'c', 'dice' FROM generate_series(1, 200) i`)
	s, err := failed.Stats(t.Context(), pool, failed.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	type figure struct {
		Value  string
		Pairs  int64
		Sample string
	}
	figures := func(tallies []failed.Tally) (f []figure) {
		for _, tally := range tallies {
			if tally.FirstFailedAt == nil || tally.LastFailedAt == nil {
				t.Errorf("%+v does not say when", tally)
			}
			f = append(f, figure{tally.Value, tally.Campaigns, tally.Sample})
		}
		return f
	}
	for name, c := range map[string]struct{ got, want []figure }{
		"projections": {figures(s.Projections), []figure{{Value: "p", Pairs: 6}, {Value: "q", Pairs: 2}}},
		"types":       {figures(s.EventTypes), []figure{{Value: "moved", Pairs: 6}, {Value: "rolled", Pairs: 2}}},
		"classes":     {figures(s.Classes), []figure{{Value: "permanent", Pairs: 6}, {Value: "transient", Pairs: 2}}},
		"fingerprints": {figures(s.Fingerprints), []figure{
			{"f00f00f00f00", 6, "division by zero at c0"},
			{"abc", 2, "dice"},
		}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if s.Failed != 2 || s.Dead != 6 || s.Rebuilding != 0 || s.More || s.At.IsZero() {
		t.Errorf("got %+v", s)
	}
	if s.Oldest == nil || s.Oldest.CampaignID != "c4" || s.Oldest.Projection != "p" {
		t.Errorf("the oldest is %+v", s.Oldest)
	}
	// Of every three records, ten minutes apart, two are failures; the youngest is ten minutes old.
	if got, want := s.Growth, (failed.Growth{LastHour: 4, HourBefore: 4, LastDay: 96, DayBefore: 38}); got != want {
		t.Errorf("growth is %+v, want %+v", got, want)
	}

	some, err := failed.Stats(t.Context(), pool, failed.Filter{Status: failed.Statuses(), Projection: "p", Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	if some.Dead != 4 || !some.More || len(some.Projections) != 1 {
		t.Errorf("of the first four got %+v", some)
	}
	none, err := failed.Stats(t.Context(), pool, failed.Filter{Projection: "nobody"})
	if err != nil || none.Oldest != nil || none.Growth != (failed.Growth{}) || none.Projections != nil {
		t.Errorf("of nothing got %+v, %v", none, err)
	}
}
