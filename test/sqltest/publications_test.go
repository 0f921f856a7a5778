package sqltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// fillPublications creates the given number of events and as many parked events of one pair. It
// also creates fifty pairs: the first is one event behind, the second two, and so on.
const fillPublications = `
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'c' || i %% 100, i, nextval('tidemark.journal_position'), md5(i::text)::uuid, 'noted', 1,
		'projection_and_replay', '{"a": 1}', 20, now(), now() FROM generate_series(1, %[1]d) AS i;
	INSERT INTO tidemark.readers (topic, publisher, position) SELECT 't' || i, 'p', %[1]d - i
		FROM generate_series(1, 50) AS i;
	INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message,
		first_failed_at)
	SELECT CASE WHEN i < 50 THEN 't' || i ELSE 'other' END, 'p', 'c' || i, 1, true, i, 'parked', 'no', now()
		FROM generate_series(1, %[1]d) AS i;`

func TestPublishersAreListedAtTheSameCostHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	measured := map[int]cost{}
	sizes := []int{2_000, 50_000}
	for _, all := range sizes {
		s := open(t, pgtest.URL(t))
		for _, statement := range []string{fmt.Sprintf(fillPublications, all), "VACUUM ANALYZE"} {
			if _, err := s.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		list := func(tx pgx.Tx) error {
			pairs, err := publications.List(t.Context(), tx, publications.Key{Publisher: "p"})
			if err == nil && (pairs[0].Behind != 1 || pairs[0].Parked != 1) {
				err = fmt.Errorf("the first pair is %+v", pairs[0])
			}
			return enough(err, len(pairs), 50)
		}
		measured[all] = s.settled(t, list)
		t.Logf("%6d events: %d blocks, %.0f rows", all, measured[all].Blocks, measured[all].Rows)
	}
	few, many := measured[sizes[0]], measured[sizes[1]]
	if many.Blocks > 2*few.Blocks || many.Rows > 2*few.Rows {
		t.Errorf("%d blocks and %.0f rows, where there is little %d and %.0f", many.Blocks, many.Rows, few.Blocks, few.Rows)
	}
	for _, plan := range many.plans {
		for _, n := range plan.all() {
			if n.Type == "Seq Scan" && slices.Contains([]string{"journal", "parked"}, n.Relation) {
				t.Errorf("it reads all of %s", n.Relation)
			}
		}
	}
}
