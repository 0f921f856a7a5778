package publications_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// 30,000 events in the middle of gaps, every third of them sold, the last one rare. Each is an hour old or more.
const manyEvents = `
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'c' || n % 100, n, 2 * n, gen_random_uuid(), CASE WHEN n = 30000 THEN 'rare' WHEN n % 3 = 0 THEN 'sold'
		ELSE 'noted' END, 1, 'projection_and_replay', '{}', 2, now(), now() - interval '9 h' + n * interval '1 s'
	FROM generate_series(1, 30000) AS n;
	SELECT setval('tidemark.journal_position', 60000);
	INSERT INTO tidemark.readers (topic, publisher, position, takes) VALUES ('all', 'p', 0, NULL), ('late', 'p', 59000, NULL),
		('sold', 'p', 0, '{"types": ["sold"]}'), ('rare', 'p', 0, '{"types": ["rare"]}'), ('none', 'p', 59000,
		'{"types": []}'), ('sold late', 'p', 59000, '{"types": ["sold"], "prefix": "c1"}')`

func TestLagOfManyEventsIsExtrapolatedFromPartsOfTheWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	exec(manyEvents)
	type lag struct {
		least, most int64
		hours       float64
		estimated   bool
	}
	check := func(when string, wants map[string]lag) {
		t.Helper()
		pairs, err := publications.List(t.Context(), pool, publications.Key{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pairs {
			want := wants[p.Topic]
			if p.Behind < want.least || p.Behind > want.most || p.Lag.Round(time.Hour/10).Hours() != want.hours ||
				p.Estimated != want.estimated {
				t.Errorf("%s: %s is %d events behind, %s, estimated: %t; want %+v", when, p.Topic, p.Behind, p.Lag, p.Estimated, want)
			}
		}
	}
	// The rare event is not read, so its time is that of the first event that is not read either.
	check("behind", map[string]lag{
		"all": {29_000, 31_000, 9, true}, "sold": {9500, 10_500, 9, true}, "rare": {0, 10, 9, true},
		"late": {500, 500, 0.8, false}, "none": {}, "sold late": {16, 20, 0.8, false},
	})
	exec(`INSERT INTO tidemark.archives (object, sha256, bytes, campaigns, events, removed, removed_hash, first_position,
			last_position, last_recorded, event_types, members, actor, reason)
		VALUES ('a', sha256(''), 1, 1, 70, 69, 0, 59001, 59999, now() - interval '5 h', '{noted,sold}', '{1}', 'anna', 'a test')`)
	check("with archived events", map[string]lag{
		"all": {29_070, 31_070, 9, true}, "sold": {9570, 10_570, 9, true}, "rare": {0, 10, 9, true},
		"late": {570, 570, 5, false}, "none": {}, "sold late": {86, 90, 5, true},
	})
}
