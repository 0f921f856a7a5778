package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// prepare runs a script on a new database.
func prepare(t *testing.T, script string) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	return pool
}

// parkedRows cover two topics, publishers, campaigns, event types and kinds of errors.
const parkedRows = `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, event_type,
	status, attempt_count, error_message, first_failed_at) VALUES
	('t1', 'p1', 'a', 1, true, 1, 'paid', 'parked', 25, 'too large', '2026-01-01'),
	('t1', 'p1', 'a', 2, false, 2, 'paid', 'parked', 25, 'down', '2026-01-02'),
	('t1', 'p2', 'a', 1, true, 1, 'told', 'retrying', 3, 'down', '2026-01-03'),
	('t2', 'p1', 'b', 7, true, 9, 'told', 'parked', 25, 'too slow', '2026-01-04'),
	('t2', 'p1', 'c', 3, true, 8, NULL, 'draining', 0, NULL, NULL)`

// A filter counts, retries and resolves the rows that it lists, except campaigns that already
// drain.
func TestAFilterChoosesTheSameForAllActs(t *testing.T) {
	t.Parallel()
	pool := prepare(t, parkedRows)
	for want, f := range map[string]publications.ParkedFilter{
		"t1/p1/a/1 t1/p1/a/2 t1/p2/a/1":           {Topic: "t1"},
		"t1/p1/a/1 t1/p1/a/2 t2/p1/b/7 t2/p1/c/3": {Publisher: "p1"},
		"t2/p1/b/7":           {CampaignID: "b"},
		"t1/p1/a/1 t1/p2/a/1": {Seq: 1},
		"t1/p2/a/1 t2/p1/b/7": {EventType: "told"},
		"t1/p2/a/1":           {Status: "retrying"},
		"t1/p1/a/1 t2/p1/b/7": {MessagePattern: "^too (large|slow)"},
		"t1/p1/a/1 t1/p1/a/2": {Topic: "t1", Publisher: "p1", EventType: "paid"},
		"t1/p1/a/2 t1/p2/a/1": {MessagePattern: "down"},
		"t1/p1/a/1 t1/p1/a/2 t1/p2/a/1 t2/p1/b/7 t2/p1/c/3": {},
	} {
		list, err := publications.ListParked(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		acted := int64(0)
		for _, k := range list {
			got = append(got, fmt.Sprintf("%s/%s/%s/%d", k.Topic, k.Publisher, k.CampaignID, k.Seq))
			if k.Status != "draining" {
				acted++
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v lists %v, want %s", f, got, want)
		}
		if n, err := publications.CountParked(t.Context(), pool, f); err != nil || n != acted {
			t.Errorf("%+v counts %d, %v, want %d", f, n, err, acted)
		}
		for name, act := range map[string]func(tx pgx.Tx) (int64, error){
			"retries": func(tx pgx.Tx) (int64, error) {
				return publications.Retry(t.Context(), tx, f, publications.Act{By: "anna"})
			},
			"resolves": func(tx pgx.Tx) (int64, error) {
				return publications.Resolve(t.Context(), tx, f, publications.Act{By: "anna", Reason: "old"})
			},
		} {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n, err := act(tx)
			var logged int64
			if scan := tx.QueryRow(t.Context(),
				"SELECT count(*) FROM tidemark.operator_log WHERE act LIKE 'parked_%' AND seq > 0").Scan(&logged); scan != nil ||
				err != nil || n != acted || logged != n {
				t.Errorf("%+v %s %d, %d stand in the log, want %d: %v, %v", f, name, n, logged, acted, err, scan)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The relay acts on the rows as retry and resolve leave them.
func TestRetryAndResolveLeaveRowsForTheRelay(t *testing.T) {
	t.Parallel()
	pool := prepare(t, parkedRows)
	states := func() (all string) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `SELECT string_agg(format('%s/%s/%s/%s %s %s %s', topic, publisher,
			campaign_id, seq, status, attempt_count, next_attempt_at <= clock_timestamp()), ', '
			ORDER BY topic, publisher, campaign_id, seq)
			FROM tidemark.parked`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if _, err := publications.Retry(t.Context(), pool, publications.ParkedFilter{Topic: "t2"},
		publications.Act{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if _, err := publications.Resolve(t.Context(), pool, publications.ParkedFilter{Topic: "t1", Publisher: "p1"},
		publications.Act{By: "anna", Reason: "old"}); err != nil {
		t.Fatal(err)
	}
	if got, want := states(),
		"t1/p1/a/2 draining 0 t, t1/p2/a/1 retrying 3 t, t2/p1/b/7 retrying 0 t, t2/p1/c/3 draining 0 t"; got != want {
		t.Errorf("the rows are\n%s, want\n%s", got, want)
	}
}

// A failed pair cannot be paused, a resumed pair does not wait out its backoff, and a position
// cannot be negative.
func TestActsLeaveAPairAsTheyShould(t *testing.T) {
	t.Parallel()
	pool := prepare(t, `INSERT INTO tidemark.readers (topic, publisher, position, status, next_attempt_at) VALUES
		('all', 'failed', 0, 'FAILED', '-infinity'), ('all', 'paused', 0, 'PAUSED', now() + interval '5 minutes')`)
	by := publications.Act{By: "anna"}
	if err := publications.Suspend(t.Context(), pool, publications.Key{Topic: "all", Publisher: "failed"}, time.Hour,
		by); err == nil ||
		!strings.Contains(err.Error(), "reset it first") {
		t.Errorf("pausing a pair that has failed: %v", err)
	}
	if err := publications.Resume(t.Context(), pool, publications.Key{Topic: "all", Publisher: "paused"}, by); err != nil {
		t.Fatal(err)
	}
	var at string
	if err := pool.QueryRow(t.Context(),
		"SELECT status || ' ' || next_attempt_at FROM tidemark.readers WHERE publisher = 'paused'").Scan(&at); err != nil || at != "ACTIVE -infinity" {
		t.Errorf("resumed it is %s, %v", at, err)
	}
	below := int64(-1)
	if _, err := publications.Reset(t.Context(), pool, publications.Key{Topic: "all", Publisher: "failed"},
		publications.ResetTo{Position: &below}, by); err == nil ||
		!strings.Contains(err.Error(), "position -1: the journal has positions from 0 to") {
		t.Errorf("reset below the beginning: %v", err)
	}
}
