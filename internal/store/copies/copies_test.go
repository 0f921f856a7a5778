package copies_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "")
}

func exec(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func appendTo(ctx context.Context, pool *pgxpool.Pool, campaign string, tags ...string) ([]journal.Appended, error) {
	var added []journal.Appended
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		added, err = journal.Journal{}.Append(ctx, tx, campaign, journal.Any, event.Event{Type: "noted", Tags: tags})
		return err
	})
	return added, err
}

// original returns a database with ten events, the last of which has tags.
func original(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	for i := range 10 {
		if _, err := appendTo(t.Context(), pool, fmt.Sprintf("c%d", i%3), fmt.Sprintf("n=%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

type lack struct{ change, object, fault string }

// lost are the ways in which a copy may lack something, with the fault.
func lost() map[string]lack {
	const positions = "tidemark.journal_position"
	return map[string]lack{
		"the sequence has no value": {
			`SELECT setval('tidemark.journal_position', 0, false)`,
			positions, "stands at 0, and an event of the journal has 10",
		},
		"the sequence is behind": {
			`SELECT setval('tidemark.journal_position', 4)`,
			positions, "stands at 4, and an event of the journal has 10",
		},
		"the sequence is behind by one": {
			`SELECT setval('tidemark.journal_position', 9)`,
			positions, "stands at 9, and an event of the journal has 10",
		},
		"a reader is beyond the sequence": {
			`INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'p', 90)`,
			positions, "stands at 10, and reader p of all has 90",
		},
		"an archive is beyond the sequence": {
			`INSERT INTO tidemark.archives (object, sha256, bytes, campaigns, events, removed, removed_hash,
		first_position, last_position, last_recorded, event_types, members, actor, reason)
		VALUES ('o', sha256(''), 1, 1, 1, 1, 1, 11, 80, now(), '{}', '{}', 'a', 'r')`,
			positions, "stands at 10, and archive o has 80",
		},
		"a tag is beyond the sequence": {
			`INSERT INTO tidemark.event_tags VALUES ('a', 'b', 70)`,
			positions, "stands at 10, and a row of tidemark.event_tags has 70",
		},
		"a failed key is beyond the sequence": {
			`WITH p AS (INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope)
		VALUES ('totals', 'default', 1, 'public', '{}', 'active', 'journal'))
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at)
		VALUES ('k', 'totals', 'default', 61, 'dead', 'infinity')`,
			positions, "stands at 10, and a failed key of totals has 60",
		},
		"the ids of a log are behind": {`INSERT INTO tidemark.failure_log OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(NULL::tidemark.failure_log, to_jsonb(f) || '{"id": 7}')).*
		FROM (SELECT 'c0' AS campaign_id, 'p' AS projection, 'default' AS consumer_group, 1 AS seq, 'failed' AS act,
			now() AS at, 1 AS attempt) f`, "tidemark.failure_log_id_seq", "stands at 0, and tidemark.failure_log has 7"},
		"limits are missing": {`DO $$ BEGIN ALTER TABLE tidemark.limits DISABLE TRIGGER USER; DELETE FROM tidemark.limits;
		ALTER TABLE tidemark.limits ENABLE TRIGGER USER; END $$`, "tidemark.limits", "has no row"},
		"the head of the log is missing": {`DELETE FROM tidemark.operator_log_head`, "tidemark.operator_log_head", "has no row"},
	}
}

func TestWhatACopyLacksIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	for name, c := range lost() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := original(t)
			if err := copies.Check(t.Context(), pool); err != nil {
				t.Fatalf("the original: %v", err)
			}
			exec(t, pool, c.change)
			if err := copies.Check(t.Context(), pool); !errors.Is(err, copies.ErrIncomplete) ||
				!strings.HasPrefix(err.Error(), c.object+" "+c.fault+":") {
				t.Errorf("Check says %v", err)
			}
			var repaired []copies.Fault
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
				repaired, err = copies.Repair(t.Context(), tx)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if want := []copies.Fault{{Object: c.object, Fault: c.fault}}; !slices.Equal(repaired, want) {
				t.Errorf("repaired %v", repaired)
			}
			if err := copies.Check(t.Context(), pool); err != nil {
				t.Errorf("after the repair: %v", err)
			}
			added, err := appendTo(t.Context(), pool, "c1")
			if err != nil {
				t.Fatal(err)
			}
			var most int64
			if err := pool.QueryRow(t.Context(), `SELECT greatest(max(j.position), (SELECT max(position) FROM tidemark.readers),
				(SELECT max(last_position) FROM tidemark.archives), (SELECT max(position) FROM tidemark.event_tags),
				(SELECT max(next_seq) - 1 FROM tidemark.failed)) FROM tidemark.journal j`).Scan(&most); err != nil {
				t.Fatal(err)
			}
			if added[0].Position != most {
				t.Errorf("the next event is at position %d, and something stands at %d", added[0].Position, most)
			}
		})
	}
}

// TestAnAppendNeverTakesAPositionTwice also repeats refused appends more often than the sequence is behind.
func TestAnAppendNeverTakesAPositionTwice(t *testing.T) {
	t.Parallel()
	one := `[{"type":"noted"}]`
	for name, sql := range map[string]string{
		"one event":      `SELECT position FROM tidemark.append('new', '` + one + `')`,
		"several events": `SELECT position FROM tidemark.append('new', '[{"type":"noted"},{"type":"noted","tags":["a=1"]}]')`,
		"campaigns":      `SELECT position FROM tidemark.append_all('[{"campaign_id":"new","events":` + one + `}]')`,
		"a condition": `SELECT position FROM tidemark.append_if('[{"campaign_id":"new","events":` + one + `}]',
			'{"failIfEventsMatch":{"items":[{"tags":["none"]}]},"after":0}')`,
	} {
		for _, behind := range []string{"0, false", "4, true"} {
			t.Run(name+" at "+behind, func(t *testing.T) {
				t.Parallel()
				pool := original(t)
				exec(t, pool, `INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'p', 1000)`,
					`SELECT setval('tidemark.journal_position', `+behind+`)`)
				for range 30 {
					var at int64
					err := pool.QueryRow(t.Context(), sql).Scan(&at)
					if err == nil || !strings.Contains(err.Error(), "TM016") {
						t.Fatalf("an append was given position %d: %v", at, err)
					}
				}
				if _, err := appendTo(t.Context(), pool, "new"); !errors.Is(err, journal.ErrPositionTaken) {
					t.Errorf("Append says %v", err)
				}
			})
		}
	}
}

func TestAProjectorDoesNotRunOnAnIncompleteCopy(t *testing.T) {
	t.Parallel()
	pool := original(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{&projection.Handlers{Name: "seen", Version: 1, Tables: "CREATE TABLE seen (campaign_id text, seq bigint)"}}})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `SELECT setval('tidemark.journal_position', 4)`)
	if err := p.Run(t.Context()); !errors.Is(err, copies.ErrIncomplete) {
		t.Errorf("Run says %v", err)
	}
	exec(t, pool, `SELECT tidemark.repair_copy()`)
	if err := p.Register(t.Context()); err != nil {
		t.Errorf("after the repair Register says %v", err)
	}
}

func TestAPlaceThatNoAppendCanHaveReachedIsNotARemedy(t *testing.T) {
	t.Parallel()
	pool := original(t)
	exec(t, pool, `INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'p', 281474976710655)`)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := copies.Repair(t.Context(), tx)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "reader p of all has 281474976710655") {
		t.Errorf("the repair says %v", err)
	}
	if _, err := appendTo(t.Context(), pool, "c1"); err != nil {
		t.Error(err)
	}
}

func TestASoundDatabaseHasNoFaultWhileItIsAppendedTo(t *testing.T) {
	t.Parallel()
	pool := original(t)
	exec(t, pool, `INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('all', 'p', 0)`)
	ctx, cancel := context.WithCancel(t.Context())
	g, _ := errgroup.WithContext(ctx)
	for i := range 4 {
		g.Go(func() error {
			for ctx.Err() == nil {
				if _, err := appendTo(t.Context(), pool, fmt.Sprintf("w%d", i), "t=1"); err != nil {
					return err
				}
				if _, err := pool.Exec(t.Context(), `UPDATE tidemark.readers SET position = tidemark.read_floor()`); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 100 {
		if err := copies.Check(t.Context(), pool); err != nil {
			t.Error(err)
		}
		var behind bool
		if err := pool.QueryRow(t.Context(), `SELECT tidemark.hold_back()`).Scan(&behind); err != nil || behind {
			t.Errorf("hold_back says %t: %v", behind, err)
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestEventsThatReadersHavePassedAreListed(t *testing.T) {
	t.Parallel()
	pool := original(t)
	find := func() (found []string) {
		t.Helper()
		for walk := (&copies.Walk{}); walk != nil; {
			var late []copies.Late
			var err error
			if late, walk, err = copies.FindLate(t.Context(), pool, *walk); err != nil {
				t.Fatal(err)
			}
			for _, l := range late {
				found = append(found, fmt.Sprintf("%d %s %d", l.Position, l.CampaignID, l.Seq))
			}
		}
		return found
	}
	if found := find(); found != nil {
		t.Errorf("the original has %v", found)
	}
	exec(t, pool, `SELECT setval('tidemark.journal_position', 20011)`) // the gap is wider than a window
	if _, err := appendTo(t.Context(), pool, "far"); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `ALTER TABLE tidemark.journal DISABLE TRIGGER USER`,
		`UPDATE tidemark.journal SET recorded_at = recorded_at - interval '1 hour'`,
		`INSERT INTO tidemark.journal SELECT seq + n, 20 + n, recorded_at + interval '1 hour', occurred_at,
			gen_random_uuid(), payload_bytes, event_version, intent, campaign_id, event_type, aggregate_type, aggregate_id,
			actor, tags, payload, metadata FROM tidemark.journal CROSS JOIN generate_series(1, 15000) AS n
			WHERE campaign_id = 'far'`)
	found := find()
	if len(found) != 15000 || found[0] != "15020 far 15001" || found[14999] != "21 far 2" {
		t.Errorf("%d late events: %v …", len(found), found[:min(3, len(found))])
	}
}

func TestALateEventNamesTimes(t *testing.T) {
	t.Parallel()
	pool := original(t)
	exec(t, pool, `ALTER TABLE tidemark.journal DISABLE TRIGGER USER`,
		`UPDATE tidemark.journal SET recorded_at = recorded_at + interval '1 day' WHERE position = 5`)
	late, next, err := copies.FindLate(t.Context(), pool, copies.Walk{})
	if err != nil || next != nil || len(late) != 1 {
		t.Fatalf("%v, %v: %v", late, next, err)
	}
	if l := late[0]; l.Position != 5 || l.RecordedAt.Sub(l.Before) < 23*time.Hour || l.Type != "noted" {
		t.Errorf("%+v", l)
	}
}
