package lease_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestAClaimOfOneCampaignIsLikeOneOfMany compares the claim of a single campaign with work to the
// scan of the outbox.
func TestAClaimOfOneCampaignIsLikeOneOfMany(t *testing.T) {
	t.Parallel()
	const given = `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ('g', 'a', 'one', 4, '-infinity', 7)`
	for name, state := range map[string][]string{
		"never leased": {},
		"given back":   {given},
		"held":         {given, `UPDATE tidemark.leases SET expires_at = '2100-01-01 00:00Z'`},
		"paused":       {given, `UPDATE tidemark.leases SET owner = 'paused', expires_at = 'infinity'`},
		"run out":      {given, `UPDATE tidemark.leases SET expires_at = clock_timestamp() - interval '1 s'`},
		"one of two": {given, `INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at,
			events) VALUES ('g', 'b', 1, now(), 1)`},
		"another group's as well": {given, `INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at,
			events) VALUES ('f', 'b', 1, now(), 1), ('h', 'c', 1, now(), 1)`},
		"nothing to do": {given, `DELETE FROM tidemark.outbox`},
		"of a group that is still": {given, `INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor,
			expires_at) VALUES ('group', 'g', '', 'to look', 'ada', '2100-01-01 00:00Z')`},
		"one that crashed": {given, `INSERT INTO tidemark.crashes (consumer_group, campaign_id, checkpoint, owners)
			VALUES ('g', 'a', 7, '{dead}')`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := withWork(t, "a")
			for _, sql := range state {
				exec(t, pool, sql)
			}
			for _, limit := range []int{1, 64} {
				got, want := claimedBy(t, pool, "claim", limit), claimedBy(t, pool, "claim_around", limit)
				if got != want {
					t.Errorf("up to %d: got %s, the walk answers %s", limit, got, want)
				}
			}
		})
	}
	t.Run("being written", func(t *testing.T) {
		t.Parallel()
		pool := withWork(t, "a")
		exec(t, pool, given)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE tidemark.leases SET checkpoint = 8`)
			expect(t, "while somebody writes its lease", claim(t, pool, keeper("two"), 64).Leases, "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "afterwards", claim(t, pool, keeper("two"), 64).Leases, "a:5:8")
	})
}

// claimedBy returns what a function claims and the leases afterwards. It rolls the claim back.
func claimedBy(t *testing.T, pool *pgxpool.Pool, function string, limit int) (claimed string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var leases string
	if err := tx.QueryRow(t.Context(), `SELECT c::text FROM tidemark.`+
		function+`('g', 'two', '', $1, interval '1 hour', 4096) AS c`, limit).Scan(&claimed); err != nil {
		t.Fatal(err)
	}
	err = tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(concat_ws(' ', campaign_id, owner, generation,
		expires_at > clock_timestamp() + interval '50 min', checkpoint), ', ' ORDER BY campaign_id), '')
		FROM tidemark.leases WHERE consumer_group = 'g'`).Scan(&leases)
	if err != nil {
		t.Fatal(err)
	}
	return claimed + " and leaves " + leases
}
