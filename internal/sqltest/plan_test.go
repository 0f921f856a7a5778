package sqltest

import (
	"crypto/md5"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	perCampaign = 10 // events of a campaign
	small       = 100
	large       = 20_000    // campaigns
	group       = 64        // campaigns that a call names
	long        = "c000000" // a campaign that has as many events as there are campaigns
)

// fill makes campaigns of ten events each. Group g has all its work before it, and held leases that nobody claims from; each campaign has a pair whose retry is due.
const fill = `
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state) VALUES ('p', 'g', 1, 'public', '{p}', 'active');
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload, payload_bytes, occurred_at, recorded_at)
	SELECT 'c' || lpad(c::text, 6, '0'), s, nextval('tidemark.journal_position'), md5(c || ' ' || s)::uuid, 'noted', 1, 'projection_and_replay', '{"a": 1}', 20, now(), now()
	FROM (SELECT c, s FROM generate_series(1, 10) AS s, generate_series(1, %[1]d) AS c UNION ALL SELECT 0, s FROM generate_series(1, %[1]d) AS s) AS e;
	INSERT INTO tidemark.outbox SELECT 'g', campaign_id, seq, event_type, recorded_at FROM tidemark.journal;
	INSERT INTO tidemark.leases SELECT 'g', campaign_id, 'w', 1, '-infinity', 0 FROM tidemark.journal WHERE seq = 1;
	INSERT INTO tidemark.leases SELECT 'held', campaign_id, 'w', 1, now() + interval '1 hour', 0 FROM tidemark.journal WHERE seq = 1;
	INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status, attempt_count, next_attempt_at)
	SELECT campaign_id, 'p', 'g', 1, 'failed', 1, now() - interval '1 minute' FROM tidemark.journal WHERE seq = 1;`

// campaigns answers the ids of n campaigns, spread over all of them.
func campaigns(n, all int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%06d", 1+i*all/n)
	}
	return ids
}

// A call is a hot statement as its package makes it, among so many campaigns.
type call func(t *testing.T, tx pgx.Tx, all int) error

// calls answers the hot statements of all packages.
func calls(t *testing.T) map[string]call {
	t.Helper()
	free := lease.Keeper{Group: "g", Owner: "w", TTL: time.Minute}
	held := lease.Keeper{Group: "held", Owner: "w", TTL: time.Minute}
	leases := func(ids []string) (leases []lease.Lease) {
		for _, id := range ids {
			leases = append(leases, lease.Lease{CampaignID: id, Generation: 1})
		}
		return leases
	}
	one := slices.Repeat([]int64{perCampaign}, group)
	projector := constants(t, "../../pkg/projector")
	return map[string]call{
		"claim": func(t *testing.T, tx pgx.Tx, all int) error {
			claimed, err := free.Claim(t.Context(), tx, "", group)
			return enough(err, len(claimed.Leases), group)
		},
		"claim deferred": func(t *testing.T, tx pgx.Tx, all int) error {
			claimed, err := free.ClaimDeferred(t.Context(), tx, []string{"p"}, group)
			return enough(err, len(claimed.Leases), group)
		},
		"advance": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			var steps []lease.Step
			for _, id := range campaigns(group, all) {
				steps = append(steps, lease.Step{CampaignID: id, Generation: 1, To: perCampaign, Release: true})
			}
			held.Advance(batch, steps)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"renew": func(t *testing.T, tx pgx.Tx, all int) error {
			kept, err := held.Renew(t.Context(), tx, leases(campaigns(group, all)))
			return enough(err, len(kept), group)
		},
		"release": func(t *testing.T, tx pgx.Tx, all int) error {
			return held.Release(t.Context(), tx, leases(campaigns(group, all)))
		},
		"complete": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			outbox.Complete(batch, "g", campaigns(group, all), one)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"read a group": func(t *testing.T, tx pgx.Tx, all int) error {
			batch, n := &pgx.Batch{}, 0
			journal.ReadGroup(batch, journal.GroupRead{CampaignIDs: campaigns(group, all), After: make([]int64, group), Until: one, Events: 500, Bytes: 1 << 30},
				func(int, journal.Event, int) { n++ })
			return enough(tx.SendBatch(t.Context(), batch).Close(), n, 500)
		},
		"append": func(t *testing.T, tx pgx.Tx, all int) error {
			places, err := journal.Append(t.Context(), tx, long, journal.Exactly(int64(all)), journal.Event{Type: "noted"})
			return enough(err, len(places), 1)
		},
		"append with ids": func(t *testing.T, tx pgx.Tx, all int) error {
			events := make([]journal.Event, 20)
			for i := range events {
				events[i] = journal.Event{ID: uuid.New(), Type: "noted"}
			}
			places, err := journal.Append(t.Context(), tx, long, journal.Any, events...)
			return enough(err, len(places), len(events))
		},
		"repeat an append": func(t *testing.T, tx pgx.Tx, _ int) error {
			events := make([]journal.Event, 20)
			for i := range events {
				id := md5.Sum(fmt.Appendf(nil, "0 %d", i+50)) // as in fill
				events[i] = journal.Event{ID: id, Type: "noted", Payload: []byte(`{"a": 1}`)}
			}
			places, err := journal.Append(t.Context(), tx, long, journal.None, events...)
			return enough(err, len(places), len(events))
		},
		"append to many": func(t *testing.T, tx pgx.Tx, all int) error {
			var batches []journal.Batch
			for _, id := range campaigns(group, all) {
				batches = append(batches, journal.Batch{CampaignID: id, Events: []journal.Event{{Type: "noted"}}})
			}
			places, err := journal.AppendAll(t.Context(), tx, batches...)
			return enough(err, len(places), group)
		},
		"read a campaign": func(t *testing.T, tx pgx.Tx, all int) error {
			n := 0
			for _, err := range journal.ReadCampaign(t.Context(), tx, long, int64(all-50)) {
				if n++; err != nil {
					return err
				}
			}
			return enough(nil, n, 50)
		},
		"read a page of the journal": func(t *testing.T, tx pgx.Tx, all int) error {
			page, err := journal.ReadPage(t.Context(), tx, int64(all*perCampaign/2), 1<<40, 100)
			return enough(err, len(page), 100)
		},
		"get": func(t *testing.T, tx pgx.Tx, all int) error {
			_, err := journal.Get(t.Context(), tx, long, int64(all-3))
			return err
		},
		"find": func(t *testing.T, tx pgx.Tx, all int) error {
			e, err := journal.Get(t.Context(), tx, long, int64(all-3))
			if err != nil {
				return err
			}
			_, err = journal.Find(t.Context(), tx, e.CampaignID, e.ID)
			return err
		},
		"deferred pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), projector["queryPairs"], campaigns(group, all), "g")
			return enough(err, int(tag.RowsAffected()), group)
		},
		"due pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), projector["queryDuePairs"], campaigns(group, all), "g", []string{"p"})
			return enough(err, int(tag.RowsAffected()), group)
		},
	}
}

// enough makes sure that a call did the work whose cost is measured.
func enough(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("it came to %d, not %d", got, want)
	}
	return err
}

// filled answers a session on a database with so many campaigns, vacuumed and analyzed.
func filled(t *testing.T, all int) *session {
	t.Helper()
	s := open(t, pgtest.URL(t))
	for _, statement := range []string{fmt.Sprintf(fill, all), "VACUUM ANALYZE"} {
		if _, err := s.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// grown answers a session whose plans are of a time when its database was empty, and that knows no statistics.
func grown(t *testing.T, hot map[string]call, all int) *session {
	t.Helper()
	s := open(t, pgtest.URL(t))
	for _, table := range []string{"journal", "outbox", "leases", "deferred"} {
		if _, err := s.Exec(t.Context(), "ALTER TABLE tidemark."+table+" SET (autovacuum_enabled = false)"); err != nil {
			t.Fatal(err)
		}
	}
	for range 7 { // after five runs Postgres may keep a plan for all parameters
		for _, call := range hot {
			tx, err := s.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = call(t, tx, all) // finds nothing
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Exec(t.Context(), fmt.Sprintf(fill, all)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHotStatementsCostTheSameHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	hot := calls(t)
	few, many, old := filled(t, small), filled(t, large), grown(t, hot, large)
	for name, call := range hot {
		measure := func(s *session, all int) cost {
			run := func(tx pgx.Tx) error {
				if err := call(t, tx, all); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			}
			s.explain(t, run) // fills the caches of the session
			return s.explain(t, run)
		}
		base := measure(few, small)
		for state, c := range map[string]cost{"small": base, "large": measure(many, large), "grown since it was planned": measure(old, large)} {
			t.Logf("%-28s %-28s %5d blocks, %5.0f rows", name, state, c.Blocks, c.Rows)
			if faults := c.faults(); len(faults) > 0 && state != "small" { // where a scan of one page is right
				t.Errorf("%s, %s: %v", name, state, faults)
			}
			if c.Blocks > 2*base.Blocks {
				t.Errorf("%s, %s: %d blocks, where there is little %d", name, state, c.Blocks, base.Blocks)
			}
			if c.Rows > 2*base.Rows {
				t.Errorf("%s, %s: %.0f rows, where there is little %.0f", name, state, c.Rows, base.Rows)
			}
		}
	}
}
