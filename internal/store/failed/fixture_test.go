package failed_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func operator() failed.Act { return failed.Act{By: "ada", Reason: "the handler is fixed"} }

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func query[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// lines returns the rows of a query with one text column.
func lines(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return found
}

// in runs an act in a transaction of its own.
func in(t *testing.T, pool *pgxpool.Pool, act func(context.Context, pgx.Tx) error) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return act(t.Context(), tx) })
}

// fail inserts a campaign of group g in which a projection has failed at event seq. A dead one
// waits for an operator, a failed one is due in an hour.
func fail(
	t *testing.T, pool *pgxpool.Pool, status failed.Status, projection, campaign string, seq int64,
) failed.Key {
	t.Helper()
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		attempt_count, next_attempt_at, projection_version,
			event_id, event_type, error_class, error_code, error_message, error_stack, fingerprint, worker, first_failed_at,
				last_failed_at)
		VALUES ($1, $2, 'g', $3, $4, 8, CASE WHEN $4 = 'dead' THEN 'infinity'
			ELSE now() + interval '1 hour' END, 3, gen_random_uuid(), 'moved', 'permanent', '22012',
			'division by zero at ' || $1, 'main.go:7', 'f00f00f00f00', 'w', now() - interval '2 hours',
				now() - interval '1 hour')`, campaign, projection, seq, status)
	return failed.Key{Projection: projection, CampaignID: campaign}
}

// rebuild inserts a campaign of group g that catches up.
func rebuild(t *testing.T, pool *pgxpool.Pool, projection, campaign string, seq int64) failed.Key {
	t.Helper()
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
		VALUES ($1, $2, 'g', $3, 'catching_up')`, campaign, projection, seq)
	return failed.Key{Projection: projection, CampaignID: campaign}
}

// standing returns a row of tidemark.failed in one line.
func standing(t *testing.T, pool *pgxpool.Pool, key failed.Key) string {
	t.Helper()
	return query[string](t, pool, `SELECT concat_ws(' ', next_seq, status, 'attempts', attempt_count,
			CASE WHEN next_attempt_at = 'infinity' THEN 'never' WHEN next_attempt_at <= now() THEN 'due'
				ELSE 'later' END, coalesce(error_code, 'no error'))
		FROM tidemark.failed WHERE campaign_id = $1 AND projection = $2`, key.CampaignID, key.Projection)
}

// logged returns the failure log, oldest first.
func logged(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return lines(t, pool, `SELECT concat_ws(' ', act, consumer_group, projection, campaign_id, seq, 'by', actor || ':',
		reason) FROM tidemark.failure_log ORDER BY id`)
}

func appendEvents(t *testing.T, pool *pgxpool.Pool, campaign string, payloads ...string) {
	t.Helper()
	events := make([]event.Event, len(payloads))
	for i, p := range payloads {
		events[i] = event.Event{Type: "moved", Payload: []byte(p)}
	}
	if err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, events...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func names(keys []failed.Key) (names []string) {
	for _, k := range keys {
		names = append(names, fmt.Sprint(k.Projection, "/", k.CampaignID))
	}
	return names
}
