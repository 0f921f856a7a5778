package journal_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAppendSQLDoesWhatAppendDoes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	appendSQL := func(expect journal.Expect, commit bool, events ...event.Event) ([]journal.Appended, error) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return nil, err
		}
		places, err := journal.Journal{}.Append(t.Context(), journal.SQL(tx), "c", expect, events...)
		if err != nil || !commit {
			return places, errors.Join(err, tx.Rollback())
		}
		return places, tx.Commit()
	}
	e := event.Event{ID: uuid.New(), Type: "noted"}
	if _, err := appendSQL(journal.None, false, e); err != nil {
		t.Fatal(err)
	}
	places, err := appendSQL(journal.None, true, e, event.Event{Type: "noted"})
	if err != nil || len(places) != 2 {
		t.Fatalf("got %v, %v", places, err)
	}
	for i, place := range places {
		got, err := journal.Get(t.Context(), pool, "c", int64(i+1))
		if err != nil || place != (journal.Appended{CampaignID: "c", ID: got.ID, Seq: got.Seq, Position: got.Position}) {
			t.Errorf("answered %+v, stored %+v, %v", place, got, err)
		}
	}
	if again, err := appendSQL(journal.None, true, e); err == nil &&
		(len(again) != 1 || !again[0].Duplicate || again[0].Seq != 1) || err != nil {
		t.Errorf("repeated: got %v, %v", again, err)
	}
	if _, err := appendSQL(journal.Exactly(1), true, event.Event{Type: "noted"}); !isConflict(err, "c", 1, 2) {
		t.Errorf("got %v", err)
	}
	e.Type = "other"
	if _, err := appendSQL(journal.Any, true, e); !errors.Is(err, journal.ErrEventIDReused) {
		t.Errorf("got %v", err)
	}
	if _, err := appendSQL(journal.Any, true, event.Event{}); !invalid(err) {
		t.Errorf("got %v", err)
	}
	if places, err := appendSQL(journal.Any, true); err != nil || places != nil {
		t.Errorf("no events: got %v, %v", places, err)
	}
}

// stale reports whether err means that a transaction's snapshot was too old, as our error or as
// Postgres' 40001.
func stale(err error) bool {
	var pgErr *pgconn.PgError
	return errors.Is(err, journal.ErrStaleSnapshot) || errors.As(err, &pgErr) && pgErr.Code == "40001"
}

func TestAnOldSnapshotIsToldToRetry(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	e := event.Event{ID: uuid.New(), Type: "noted"}
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, events := range map[string][]event.Event{"another event": noted(1), "the same event": {e}} {
			campaign := string(level) + name
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			query[int64](t, tx, "SELECT count(*) FROM tidemark.journal") // takes the snapshot
			mustAppend(t, pool, campaign, e)
			_, err = journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, events...)
			if !stale(err) {
				t.Errorf("%s, %s: got %v", level, name, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := appendAt(t.Context(), pool, level, campaign, noted(1)...); err != nil {
				t.Errorf("%s, %s: with a snapshot of its own: %v", level, name, err)
			}
		}
	}
	if n := query[int64](t, pool, "SELECT max(seq) FROM tidemark.journal"); n != 2 {
		t.Errorf("got %d events a campaign, want 2", n)
	}
}

// Retry loops in other languages match the SQLSTATE only, so they must get the one for retries,
// 40001.
func TestAnOldSnapshotIsASerializationFailureInSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, statement := range map[string]string{
			"append":     `SELECT FROM tidemark.append('c', '[{"type": "noted"}]')`,
			"append_all": `SELECT FROM tidemark.append_all('[{"campaign_id": "new", "events": [{"type": "noted"}]}, {"campaign_id": "c", "events": [{"type": "noted"}]}]')`,
			"append_if": `SELECT FROM tidemark.append_if('[{"campaign_id": "c", "events": [{"type": "noted"}]}]',
				'{"failIfEventsMatch": {"items": [{"types": ["never"]}]}}')`,
			"the same event": `SELECT FROM tidemark.append('c',
				'[{"type": "noted", "id": "01a20525-11aa-7001-a568-84c45302db2c"}]')`,
		} {
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			query[int64](t, tx, "SELECT count(*) FROM tidemark.journal") // takes the snapshot
			exec(t, pool, `SELECT FROM tidemark.append('c',
				'[{"type": "noted", "id": "01a20525-11aa-7001-a568-84c45302db2c"}]')`)
			mustAppend(t, pool, "c", noted(1)...)
			_, err = tx.Exec(t.Context(), statement)
			var pgErr *pgconn.PgError
			if name == "the same event" && err == nil {
				if level == pgx.RepeatableRead && query[int64](t, tx,
					"SELECT count(*) FROM tidemark.journal WHERE campaign_id = 'c'") == 0 {
					t.Errorf("%s, %s: an event that the snapshot does not show was answered", level, name)
				}
			} else if !errors.As(err, &pgErr) || pgErr.Code != "40001" {
				t.Errorf("%s, %s: got %v", level, name, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// NOTIFY and PREPARE TRANSACTION exclude each other. A session that sets tidemark.notify to off can
// prepare its appends at any time.
func TestAnAppendCanBePreparedWhileAWorkerWaits(t *testing.T) {
	t.Parallel()
	url := pgtest.Server(t).URL()
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	exec(t, pool, `SELECT setval('tidemark.waiting', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3600000)`)
	for name, statement := range map[string]string{
		"append":     `SELECT FROM tidemark.append('a', '[{"type": "noted"}]')`,
		"append_all": `SELECT FROM tidemark.append_all('[{"campaign_id": "b", "events": [{"type": "noted"}]}]')`,
		"append_if": `SELECT FROM tidemark.append_if('[{"campaign_id": "d", "events": [{"type": "noted"}]}]',
			'{"failIfEventsMatch": {"items": [{"types": ["never"]}]}}')`,
	} {
		for _, sql := range []string{
			"BEGIN", "SET LOCAL tidemark.notify = off", statement,
			fmt.Sprintf("PREPARE TRANSACTION '%s'", name), fmt.Sprintf("COMMIT PREPARED '%s'", name),
		} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %s: %v", name, sql, err)
			}
		}
	}
	checkGapless(t, pool, 3)
}

func appendAt(
	ctx context.Context, pool *pgxpool.Pool, level pgx.TxIsoLevel, campaign string, events ...event.Event,
) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, events...)
		return err
	})
}

func TestSerializableWritersThatRetryAllGetThrough(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const writers, each = 6, 10
	var g errgroup.Group
	for i := range writers {
		level := []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable, pgx.ReadCommitted}[i%3]
		g.Go(func() error {
			for done := 0; done < each; {
				switch err := appendAt(t.Context(), pool, level, "c", noted(1)...); {
				case err == nil:
					done++
				case !stale(err):
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	checkGapless(t, pool, writers*each)
}

// checkGapless checks that the journal holds the given number of events, that each campaign counts
// 1, 2, 3 … in the order of positions, and that each group's work items cover each event once.
func checkGapless(t *testing.T, pool *pgxpool.Pool, events int) {
	t.Helper()
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.journal"); n != events {
		t.Errorf("the journal holds %d events, want %d", n, events)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM (
			SELECT seq, row_number() OVER (PARTITION BY campaign_id ORDER BY position) AS place FROM tidemark.journal
		) j WHERE seq <> place`); n != 0 {
		t.Errorf("%d events are not numbered by their place in their campaign", n)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM (
			SELECT g.name AS consumer_group, j.campaign_id, j.seq FROM tidemark.journal j CROSS JOIN tidemark.consumer_groups g
		) j FULL JOIN (
			SELECT o.consumer_group, o.campaign_id, s AS seq FROM tidemark.outbox o CROSS
				JOIN LATERAL generate_series(o.seq - o.events + 1, o.seq) AS s
		) o USING (consumer_group, campaign_id, seq)
		WHERE j.consumer_group IS NULL OR o.consumer_group IS NULL`); n != 0 {
		t.Errorf("%d events and work items are without the other", n)
	}
	if !query[bool](t, pool, `SELECT coalesce(sum(events), 0) = $1 * (SELECT count(*) FROM tidemark.consumer_groups)
		FROM tidemark.outbox`, events) {
		t.Error("work items stand for events twice")
	}
}

func TestAppendSQLUnderAnOldSnapshotIsToldToRetry(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	db := stdlib.OpenDBFromPool(pool)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT FROM tidemark.journal"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, pool, "c", noted(1)...)
	if _, err := (journal.Journal{}).Append(t.Context(), journal.SQL(tx), "c", journal.Any, noted(1)...); !stale(err) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
		t.Fatal(err)
	}
}
