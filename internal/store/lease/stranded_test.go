package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestALeaseOfATimeThatHasNotComeYet uses rows as if the server's clock had gone back an hour: a
// lease that had half a minute left now ends in an hour.
func TestALeaseOfATimeThatHasNotComeYet(t *testing.T) {
	t.Parallel()
	const (
		far   = `UPDATE tidemark.leases SET expires_at = clock_timestamp() + interval '1 hour'`
		dead  = `UPDATE tidemark.workers SET seen_at = clock_timestamp() + interval '59 min'`
		alive = `UPDATE tidemark.workers SET seen_at = clock_timestamp()`
	)
	for name, one := range map[string]struct {
		state []string
		taken bool
	}{
		"of a worker that died before": {[]string{far, dead}, true},
		"of a worker that is not heard of since": {[]string{far, `UPDATE tidemark.workers
			SET seen_at = clock_timestamp() - interval '2 min'`}, true},
		"of a worker that has left":                       {[]string{far, `DELETE FROM tidemark.workers`}, true},
		"that a worker which lives has not renewed since": {[]string{far, alive}, true},
		"of a worker that lives and leases for as long": {[]string{far, alive, `UPDATE tidemark.workers
			SET lease_ttl = '1 hour'`}, false},
		"of a worker that has died, and leases for as long": {[]string{far, dead, `UPDATE tidemark.workers
			SET lease_ttl = '1 hour'`}, true},
		"that runs out within its life, of the dead": {[]string{`UPDATE tidemark.leases
			SET expires_at = clock_timestamp() + interval '1 min'`, dead}, false},
		"that is paused until then": {[]string{far, dead, `UPDATE tidemark.leases
			SET owner = 'paused'`}, false},
		"that is paused": {[]string{dead, `UPDATE tidemark.leases
			SET owner = 'paused', expires_at = 'infinity'`}, false},
	} {
		for by, take := range map[string]func(t *testing.T, pool *pgxpool.Pool, k lease.Keeper) []lease.Lease{
			"claim": func(t *testing.T, pool *pgxpool.Pool, k lease.Keeper) []lease.Lease {
				return claim(t, pool, k, 64).Leases
			},
			"claim among many": func(t *testing.T, pool *pgxpool.Pool, k lease.Keeper) []lease.Lease {
				exec(t, pool, `INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
					SELECT 'g', c, s, now(), 1 FROM unnest('{x,y,z}'::text[]) AS c, generate_series(1, 9) AS s`)
				exec(t, pool, `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at,
					checkpoint) SELECT 'g', c, 'paused', 1, 'infinity', 0 FROM unnest('{x,y,z}'::text[]) AS c`)
				return claim(t, pool, k, 3).Leases
			},
			"claim failed": func(t *testing.T, pool *pgxpool.Pool, k lease.Keeper) []lease.Lease {
				exec(t, pool, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
					VALUES ('p', 'g', 1, 'public', '{p}', 'active')`)
				exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
					VALUES ('a', 'p', 'g', 1, 'catching_up')`)
				claimed, err := k.ClaimBehind(t.Context(), pool, []string{"p"}, 64)
				if err != nil {
					t.Fatal(err)
				}
				return claimed.Leases
			},
			"take over without waiting": func(t *testing.T, pool *pgxpool.Pool, k lease.Keeper) (leases []lease.Lease) {
				batch := &pgx.Batch{}
				k.TakeOver(batch, []string{"a"}, false, func(taken []lease.Lease) { leases = taken })
				if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
					t.Fatal(err)
				}
				return leases
			},
		} {
			t.Run(name+", by "+by, func(t *testing.T) {
				t.Parallel()
				pool := withWork(t, "a")
				first, two := keeper("one"), keeper("two")
				first.TTL, two.TTL = time.Minute, time.Minute
				if _, err := first.Beat(t.Context(), pool, "host", 1, 0, 0); err != nil {
					t.Fatal(err)
				}
				held := claim(t, pool, first, 64).Leases[0]
				for _, sql := range one.state {
					exec(t, pool, sql)
				}
				taken := take(t, pool, two)
				err := advance(t.Context(), pool, first, lease.Step{CampaignID: "a", Generation: held.Generation, From: 0, To: 1})
				if !one.taken {
					expect(t, "a lease that runs", taken, "")
					return
				}
				expect(t, "the lease", taken, "a:2:0")
				if !errors.Is(err, lease.ErrLost) {
					t.Errorf("who had it gets %v at the fence, want ErrLost", err)
				}
				if len(taken) == 1 && taken[0].Suspect != nil {
					t.Errorf("the campaign is suspected: %+v", taken[0].Suspect)
				}
			})
		}
	}
}

// TestADutyOfATimeThatHasNotComeYetIsTaken does the same for duties.
func TestADutyOfATimeThatHasNotComeYetIsTaken(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	take := func(owner string, want bool) {
		t.Helper()
		if got, err := lease.TakeDuty(t.Context(), pool, "look", owner, time.Minute); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", owner, got, err, want)
		}
	}
	take("one", true)
	take("two", false)
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp() + interval '1 hour'`)
	take("two", true)
	take("one", false)
}
