package sqltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// fillFailures creates the given number of rows, six in ten dead, three failed and one rebuilding,
// and a row of the log for each.
const fillFailures = `
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
		event_type, error_class, error_message, fingerprint, first_failed_at)
	SELECT 'c' || lpad(i::text, 7, '0'), 'p' || i %% 3, 'g', 1 + i %% 7, CASE WHEN i %% 10 < 6 THEN 'dead'
		WHEN i %% 10 < 9 THEN 'failed' ELSE 'catching_up' END,
		CASE WHEN i %% 10 < 6 THEN 'infinity' ELSE now() + i %% 300 * interval '1 second' END, 'type' || i %% 20,
			'transient', 'division by zero at ' || i,
		'f' || i %% 30, now() - interval '1 hour'
	FROM generate_series(1, %[1]d) AS i;
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at)
	SELECT 'few' || i, 'few', 'g', 1, (ARRAY['dead', 'failed', 'catching_up'])[1 + i %% 3], CASE i %% 3
		WHEN 0 THEN 'infinity' ELSE now() END
	FROM generate_series(1, 10) AS i;
	INSERT INTO tidemark.consumer_groups (name) VALUES ('g');
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope)
		VALUES ('p1', 'g', 1, 'public', '{p1}', 'active', 'campaign'), ('p2', 'g', 1, 'public', '{p2}', 'active', 'journal');
	INSERT INTO tidemark.readers (topic, publisher, kind, position) VALUES ('p2', '#0', 'projection', 1000000);
	SELECT setval('tidemark.journal_position', 1000001);
	INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT 'g', 'c' || lpad(i::text, 7, '0'), 1, now(), 1 FROM generate_series(1, 10 * %[1]d) AS i;
	INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
		SELECT 'campaign', 'g', 'c' || lpad(i::text, 7, '0'), '', 'ada' FROM generate_series(1, %[1]d) AS i;
	INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq, error_message)
	SELECT 'failed', 'g', 'p' || i %% 3, 'c' || lpad(i::text, 7, '0'), 1 + i %% 7, 'division by zero'
		FROM generate_series(1, %[1]d) AS i;`

// operators returns the reads and acts of operators on one failed campaign or on a page of them.
func operators() map[string]func(t *testing.T, tx pgx.Tx) error {
	act := failed.Act{By: "ada", Reason: "the handler is fixed"}
	key := failed.Key{Projection: "p2", CampaignID: "c0000500"} // dead
	failing := []failed.Status{failed.Failed, failed.Dead}
	list := func(f failed.Filter) func(t *testing.T, tx pgx.Tx) error {
		return func(t *testing.T, tx pgx.Tx) error {
			f.Limit = group
			pairs, err := failed.List(t.Context(), tx, f)
			return enough(err, len(pairs), group)
		}
	}
	entries := func(after *outbox.Place) func(t *testing.T, tx pgx.Tx) error {
		return func(t *testing.T, tx pgx.Tx) error {
			list, _, err := outbox.Page(t.Context(), tx, outbox.Filter{Limit: group}, after)
			return enough(err, len(list), group)
		}
	}
	return map[string]func(t *testing.T, tx pgx.Tx) error{
		"list what failed": list(failed.Filter{Status: failing}),
		"list the dead":    list(failed.Filter{Status: []failed.Status{failed.Dead}}),
		"list a page further on": list(failed.Filter{
			Status: failing, After: &failed.Place{NextSeq: 3, Key: failed.Key{Projection: "p0", CampaignID: "c0000300"}},
		}),
		"list a projection's": list(failed.Filter{Status: failing, Projection: "p1"}),
		"count a campaign's": func(t *testing.T, tx pgx.Tx) error {
			n, err := failed.Count(t.Context(), tx, failed.Filter{CampaignID: key.CampaignID})
			return enough(err, int(n), 1)
		},
		"show": func(t *testing.T, tx pgx.Tx) error {
			d, err := failed.Show(t.Context(), tx, key)
			if err != nil {
				return err
			}
			return enough(nil, len(d.History), 1)
		},
		"requeue": func(t *testing.T, tx pgx.Tx) error { return failed.Requeue(t.Context(), tx, key, act) },
		"resolve": func(t *testing.T, tx pgx.Tx) error { return failed.Resolve(t.Context(), tx, key, 1+500%7, act) },
		"read the log's newest": func(t *testing.T, tx pgx.Tx) error {
			records, err := failed.History(t.Context(), tx, failed.LogFilter{Limit: group})
			return enough(err, len(records), group)
		},
		"requeue a page": func(t *testing.T, tx pgx.Tx) error {
			keys, err := bulk.Requeue(t.Context(), tx, failed.Filter{Limit: group}, act)
			return enough(err, len(keys), group)
		},
		"resolve a page": func(t *testing.T, tx pgx.Tx) error {
			keys, err := bulk.Resolve(t.Context(), tx, failed.Filter{Limit: group}, act)
			return enough(err, len(keys), group)
		},
		"list entries": entries(nil), "list entries further on": entries(&outbox.Place{
			Group: "g", CampaignID: "c0000300",
			Seq: 1,
		}), "list entries that are pairs": entries(&outbox.Place{CampaignID: "c0000300"}),
		"list a campaign's entries": func(t *testing.T, tx pgx.Tx) error {
			list, _, err := outbox.Page(t.Context(), tx, outbox.Filter{CampaignID: key.CampaignID, Limit: group}, nil)
			return enough(err, len(list), 2)
		},
		// None is processing, so it reads a bounded number of rows.
		"list entries of a rare status": func(t *testing.T, tx pgx.Tx) error {
			_, next, err := outbox.Page(t.Context(), tx, outbox.Filter{Status: outbox.Processing, Limit: group}, nil)
			if err == nil && next == nil {
				err = errors.New("it has looked at all of them")
			}
			return err
		},
		"list pauses": func(t *testing.T, tx pgx.Tx) error {
			list, err := pause.List(t.Context(), tx, "", &pause.Target{Group: "g", CampaignID: "c0000500"}, group)
			return enough(err, len(list), group)
		},
		"wait for a campaign that is dead": func(t *testing.T, tx pgx.Tx) error {
			return applied(t.Context(), tx, "c0000400", "p1", "dead")
		},
		"wait for an event across campaigns": func(t *testing.T, tx pgx.Tx) error {
			return applied(t.Context(), tx, "elsewhere", "p2", "waiting")
		},
		"rename a projection's": func(t *testing.T, tx pgx.Tx) error {
			return failed.Rename(t.Context(), tx, "g", "few", "other")
		},
		"drop a projection's": func(t *testing.T, tx pgx.Tx) error {
			n, err := failed.Drop(t.Context(), tx, "g", "few", group)
			return enough(err, int(n), 10)
		},
	}
}

// applied expects the state of an event far behind those that have failed.
func applied(ctx context.Context, tx pgx.Tx, campaign, projection, want string) (err error) {
	var state string
	if err = tx.QueryRow(ctx, `SELECT state FROM tidemark.applied(ARRAY[$1], ARRAY[1000000::bigint],
		ARRAY[1000001::bigint], ARRAY[$2])`, campaign, projection).Scan(&state); err == nil && state != want {
		err = fmt.Errorf("the event is %s, want %s", state, want)
	}
	return err
}

func TestOperatorsWaitNoLongerWhenMoreHasFailed(t *testing.T) {
	t.Parallel()
	measured := map[string]cost{}
	for _, all := range []int{1_000, 50_000} {
		s := open(t, pgtest.URL(t))
		for _, statement := range []string{
			"ALTER TABLE tidemark.leases SET (autovacuum_enabled = off)", // once analysed, it is known to be empty
			fmt.Sprintf(fillFailures, all), "VACUUM ANALYZE tidemark.failed",
			"VACUUM ANALYZE tidemark.outbox", "VACUUM ANALYZE tidemark.pauses", "VACUUM ANALYZE tidemark.failure_log",
		} {
			if _, err := s.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		for name, call := range operators() {
			run := func(tx pgx.Tx) error {
				if err := call(t, tx); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			}
			c := s.settled(t, run)
			t.Logf("%-24s %6d pairs: %5d blocks, %5.0f rows", name, all, c.Blocks, c.Rows)
			base, known := measured[name]
			if !known {
				measured[name] = c
				continue
			}
			if faults := c.faults(); len(faults) > 0 {
				t.Errorf("%s: %v", name, faults)
			}
			if c.Blocks > 2*base.Blocks+group {
				t.Errorf("%s: %d blocks, where there is little %d", name, c.Blocks, base.Blocks)
			}
			if c.Rows > 2*base.Rows {
				t.Errorf("%s: %.0f rows, where there is little %.0f", name, c.Rows, base.Rows)
			}
		}
	}
}
