package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func register(t *testing.T, pool *pgxpool.Pool, group string) {
	t.Helper()
	if err := outbox.Register(t.Context(), pool, group); err != nil {
		t.Fatal(err)
	}
}

// appendTo appends n events in the transaction.
func appendTo(ctx context.Context, tx pgx.Tx, campaign string, n int) error {
	_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, slices.Repeat([]event.Event{{Type: "noted"}}, n)...)
	return err
}

func mustAppend(t *testing.T, pool *pgxpool.Pool, campaign string, n int) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return appendTo(t.Context(), tx, campaign, n)
	}); err != nil {
		t.Fatal(err)
	}
}

// items returns the group's work items as campaign:first-last.
func items(t *testing.T, pool *pgxpool.Pool, group string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(),
		"SELECT campaign_id || ':' || (seq - events + 1) || '-' || seq FROM tidemark.outbox WHERE consumer_group = $1 "+
			"ORDER BY campaign_id, seq", group)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestANewGroupGetsWorkForWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "B", 1)
	mustAppend(t, pool, "a", 3)
	mustAppend(t, pool, "ä", 2)
	register(t, pool, "g")
	if got, want := items(t, pool, "g"), []string{"B:1-1", "a:1-3", "ä:1-2"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v: one a campaign", got, want)
	}
	exec(t, pool, "DELETE FROM tidemark.outbox") // all is applied
	register(t, pool, "g")
	if got := items(t, pool, "g"); len(got) > 0 {
		t.Errorf("registering a group that is known filed %v", got)
	}
	mustAppend(t, pool, "a", 2)
	register(t, pool, "later")
	for group, want := range map[string][]string{"g": {"a:4-5"}, "later": {"B:1-1", "a:1-5", "ä:1-2"}} {
		if got := items(t, pool, group); !slices.Equal(got, want) {
			t.Errorf("group %s got items %v, want %v", group, got, want)
		}
	}
}

func TestRegisteringGoesOnWhereItWasInterrupted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const campaigns = 5_100 // more than one transaction inserts
	exec(t, pool, `INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
		payload, payload_bytes, occurred_at, recorded_at)
		SELECT 'c' || c, s, nextval('tidemark.journal_position'), gen_random_uuid(), 'noted', 1, 'projection_and_replay',
			'{}', 0, now(), now()
		FROM generate_series(1, $1) AS c, generate_series(1, 2) AS s`, campaigns)
	exec(t, pool, "INSERT INTO tidemark.consumer_groups (name) VALUES ('g')")
	exec(t, pool,
		"INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events) SELECT 'g', 'c' || c, 2, "+
			"now(), 1 FROM generate_series(1001, 4000) AS c")
	register(t, pool, "g")
	if n := count(t, pool, "SELECT count(DISTINCT campaign_id) FROM tidemark.outbox WHERE seq = 2"); n != campaigns {
		t.Errorf("%d of %d campaigns have work", n, campaigns)
	}
	if n := count(t, pool, "SELECT count(*) FROM tidemark.outbox"); n != campaigns {
		t.Errorf("%d work items for %d campaigns", n, campaigns)
	}
	if n := count(t, pool, "SELECT count(*) FROM tidemark.consumer_groups WHERE state = 'ready'"); n != 1 {
		t.Error("the group is not ready")
	}
}

func TestRegisteringWaitsForAppendsThatDoNotKnowTheGroup(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	stranger, err := pool.Begin(t.Context()) // registration does not wait for it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Exec(t.Context(), "CREATE TABLE strangers ()"); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := appendTo(t.Context(), tx, "in flight", 1); err != nil {
		t.Fatal(err)
	}

	cancelled, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := outbox.Register(cancelled, pool, "g"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("while the append is in flight: got %v", err)
	}
	mustAppend(t, pool, "knows the group", 1)

	var g errgroup.Group
	g.Go(func() error { return outbox.Register(t.Context(), pool, "g") })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, want := items(t, pool, "g"), []string{"in flight:1-1", "knows the group:1-1"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v", got, want)
	}
	if err := stranger.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestManyRegisterWhileOthersAppend(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for i := range 50 {
		mustAppend(t, pool, fmt.Sprint("before", i), 2)
	}
	var g errgroup.Group
	for w := range 3 {
		g.Go(func() error {
			for i := range 40 {
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					return appendTo(t.Context(), tx, fmt.Sprint("during", w, i), 2)
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 6 {
		g.Go(func() error { return outbox.Register(t.Context(), pool, fmt.Sprint("g", i%2)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `SELECT count(*) FROM (SELECT DISTINCT campaign_id FROM tidemark.journal) c CROSS
		JOIN tidemark.consumer_groups g
		WHERE NOT EXISTS (SELECT FROM tidemark.outbox o WHERE o.consumer_group = g.name
			AND o.campaign_id = c.campaign_id)`); n > 0 {
		t.Errorf("%d campaigns have no work for a group", n)
	}
	if n := count(t, pool, "SELECT count(*) FROM tidemark.consumer_groups WHERE state = 'ready'"); n != 2 {
		t.Errorf("%d of 2 groups are ready", n)
	}
}

func TestCompleteDeletesUpToASeqInOneGroup(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	register(t, pool, "g")
	register(t, pool, "h")
	for _, campaign := range []string{"a", "b", "c"} {
		mustAppend(t, pool, campaign, 1)
		mustAppend(t, pool, campaign, 2)
	}
	batch := &pgx.Batch{}
	outbox.Complete(batch, "g", []string{"b", "a", "nobody"}, []int64{0, 0, 0}, []int64{3, 2, 9})
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := items(t, pool, "g"), []string{"a:2-3", "c:1-1", "c:2-3"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v", got, want)
	}
	if got := items(t, pool, "h"); len(got) != 6 {
		t.Errorf("another group has %v", got)
	}
	batch = &pgx.Batch{}
	outbox.Complete(batch, "h", []string{"a", "b", "c"}, []int64{1, 3, 0}, []int64{3, 3, 1})
	outbox.Complete(batch, "h", []string{"c"}, []int64{1}, []int64{3})
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := items(t, pool, "h"), []string{"a:1-1"}; !slices.Equal(got, want) {
		t.Errorf("from the checkpoints, and from the beginning where it stays: %v are left, want %v", got, want)
	}
}
