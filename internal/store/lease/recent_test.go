package lease_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// withGroup returns a database whose appends file work for group g.
func withGroup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'ready')")
	return pool
}

// appended appends an event to each campaign, in this order.
func appended(t *testing.T, pool *pgxpool.Pool, campaigns ...string) {
	t.Helper()
	for _, campaign := range campaigns {
		exec(t, pool, `SELECT tidemark.append($1, '[{"type": "noted"}]'::jsonb)`, campaign)
	}
}

func claimRecent(t *testing.T, db lease.DB, k lease.Keeper, in lease.Recent, limit int) lease.Claimed {
	t.Helper()
	claimed, err := k.ClaimRecent(t.Context(), db, in, limit, 0)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func TestARecentClaimFindsNewEventsAndLeavesOlderOnesToTheClaimAround(t *testing.T) {
	t.Parallel()
	pool := withGroup(t)
	k := keeper("one")
	appended(t, pool, "old", "older")
	exec(t, pool, `SELECT tidemark.append('filler', (SELECT jsonb_agg('{"type": "noted"}'::jsonb)
		FROM generate_series(1, 500)))`)
	exec(t, pool, "SELECT tidemark.complete('g', '{filler}', '{0}', '{500}')")
	exec(t, pool, `SELECT tidemark.append('filler', (SELECT jsonb_agg('{"type": "noted"}'::jsonb)
		FROM generate_series(1, 500)))`)
	exec(t, pool, "SELECT tidemark.complete('g', '{filler}', '{0}', '{1000}')")
	appended(t, pool, "b", "c", "a")
	exec(t, pool, "INSERT INTO tidemark.outbox VALUES ('g', 'filed', 1, now(), 1)") // without an event
	exec(t, pool, `INSERT INTO tidemark.leases VALUES ('g', 'c', '', 3, '-infinity', 0),
		('g', 'filler', '', 1, '-infinity', 1000)`)

	// Position 0 precedes all of them: the first claim reads the newest 1,024, then the next ones.
	claimed := claimRecent(t, pool, k, lease.Recent{Turn: 16}, 9)
	expect(t, "the newest", claimed.Leases, "a:1:0 b:1:0 c:4:0 old:1:0 older:1:0")
	if claimed.Cursor != "" || len(claimed.Recent.Known) > 0 {
		t.Errorf("something is left: %+v", claimed)
	}
	expect(t, "again", claimRecent(t, pool, k, claimed.Recent, 9).Leases, "")
	appended(t, pool, "d")
	exec(t, pool, "DELETE FROM tidemark.leases WHERE campaign_id IN ('b', 'old')") // as if they had never been claimed
	expect(t, "after the position", claimRecent(t, pool, k, claimed.Recent, 9).Leases, "d:1:0")
	expect(t, "around", claim(t, pool, k, 9).Leases, "b:1:0 filed:1:0 old:1:0")
}

func TestRecentClaimsFindAppendsThatCommitLate(t *testing.T) {
	t.Parallel()
	pool := withGroup(t)
	k := keeper("one")
	appended(t, pool, "a")
	first := claimRecent(t, pool, k, lease.Recent{}, 9)
	expect(t, "before", first.Leases, "a:1:0")
	appending := func(campaign string) pgx.Tx {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), `SELECT tidemark.append($1, '[{"type": "noted"}]'::jsonb)`, campaign)
		}
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	late, never := appending("late"), appending("never")
	appended(t, pool, "b")
	second := claimRecent(t, pool, k, first.Recent, 9)
	expect(t, "while they are open", second.Leases, "b:1:0")
	if second.Recent.Since != first.Recent.Since {
		t.Errorf("the next claim goes on at %d, beyond the gap after %d", second.Recent.Since, first.Recent.Since)
	}
	for tx, end := range map[pgx.Tx]func(context.Context) error{late: late.Commit, never: never.Rollback} {
		if err := end(t.Context()); err != nil {
			t.Fatal(tx, err)
		}
	}
	third := claimRecent(t, pool, k, second.Recent, 9)
	expect(t, "after the commit", third.Leases, "late:1:0")
	if want := first.Recent.Since + 1; third.Recent.Since != want {
		t.Errorf("the next claim goes on at %d, want %d, before the gap of the other one", third.Recent.Since, want)
	}
	for range 3 {
		exec(t, pool, `SELECT tidemark.append('many', (SELECT jsonb_agg('{"type": "noted"}'::jsonb)
			FROM generate_series(1, 100)))`)
	}
	fourth := claimRecent(t, pool, k, third.Recent, 9)
	expect(t, "many more", fourth.Leases, "many:1:0")
	if want := third.Recent.Since + 2 + 300 - 256; fourth.Recent.Since != want {
		t.Errorf("the next claim goes on at %d, want %d, 256 positions back", fourth.Recent.Since, want)
	}
}

func TestRecentClaimsComeToEachCampaignInTurn(t *testing.T) {
	t.Parallel()
	pool := withGroup(t)
	k := keeper("one")
	for i := range 40 {
		appended(t, pool, fmt.Sprintf("c%02d", i))
	}
	next := lease.Recent{Since: 1 << 40} // events are out of reach
	for turn, want := range []int{16, 16, 8, 0} {
		next.Turn = 16
		claimed := claimRecent(t, pool, k, next, 64)
		if len(claimed.Leases) != want || want > 0 && claimed.Leases[0].CampaignID != fmt.Sprintf("c%02d", 16*turn) {
			t.Errorf("turn %d: %v", turn, claimed.Leases)
		}
		next = claimed.Recent
	}
}

func TestARecentClaimKeepsInMindWhatItCannotLeaseYet(t *testing.T) {
	t.Parallel()
	pool := withGroup(t)
	one, two := keeper("one"), keeper("two")
	appended(t, pool, "c", "b", "a")
	first := claimRecent(t, pool, one, lease.Recent{}, 1)
	expect(t, "the first of three", first.Leases, "c:1:0")
	if first.Cursor == "" {
		t.Error("a claim that stopped at its limit says that nothing is left")
	}
	if known := first.Recent.Known; !slices.Equal(known, []string{"b", "a"}) {
		t.Errorf("left in mind are %v", known)
	}
	exec(t, pool, "INSERT INTO tidemark.leases VALUES ('g', 'paused', 'paused', 1, 'infinity', 0)")
	appended(t, pool, "paused", "c")
	// From here on events are out of reach, so only the campaigns in mind count.
	far := func(known []string) lease.Recent { return lease.Recent{Since: 1 << 40, Known: known} }
	second := claimRecent(t, pool, two, far([]string{"b", "paused", "c", "done"}), 9)
	expect(t, "what is free", second.Leases, "b:1:0")
	if known := second.Recent.Known; !slices.Equal(known, []string{"c"}) {
		t.Errorf("held by others and so left in mind are %v", known)
	}
	if second.Retry.IsZero() {
		t.Error("the lease in the way is not told")
	}
	if err := one.Release(t.Context(), pool, first.Leases); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE tidemark.leases SET checkpoint = 0 WHERE campaign_id = 'c'"); err != nil {
		t.Fatal(err)
	}
	locked := claimRecent(t, pool, two, far(second.Recent.Known), 9)
	expect(t, "while c is written", locked.Leases, "")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "when it is not", claimRecent(t, pool, two, far(locked.Recent.Known), 9).Leases, "c:2:0")

	exec(t, pool, "INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor) VALUES ('group', 'g', '', '', 'ada')")
	paused := claimRecent(t, pool, two, lease.Recent{Since: 1, Known: []string{"a"}}, 9)
	if len(paused.Leases) > 0 || paused.Recent.Since != 1 || !slices.Equal(paused.Recent.Known, []string{"a"}) {
		t.Errorf("in a paused group: %+v", paused)
	}
}

// TestRecentClaimsOfSeveralOwnersFindEveryEvent appends while owners apply what they find with
// recent claims alone. Campaigns are often held when an event arrives.
func TestRecentClaimsOfSeveralOwnersFindEveryEvent(t *testing.T) {
	t.Parallel()
	const owners, events, campaigns = 4, 600, 7
	pool := withGroup(t)
	appended(t, pool, "first")
	var mu sync.Mutex
	held := map[string]string{}
	var g errgroup.Group
	g.Go(func() error {
		for i := range events {
			if _, err := pool.Exec(t.Context(), `SELECT tidemark.append($1, '[{"type": "noted"}]'::jsonb)`,
				fmt.Sprint("c", i*i%campaigns)); err != nil {
				return err
			}
		}
		return nil
	})
	late := time.Now().Add(time.Minute)
	for i := range owners {
		g.Go(func() error {
			k := keeper(fmt.Sprint("owner ", i))
			var in lease.Recent
			for time.Now().Before(late) {
				claimed, err := k.ClaimRecent(t.Context(), pool, in, 1+i, 0)
				if err != nil {
					return err
				}
				in = claimed.Recent
				var steps []lease.Step
				mu.Lock()
				for _, l := range claimed.Leases {
					if other := held[l.CampaignID]; other != "" {
						err = fmt.Errorf("%s got %s, which %s has", k.Owner, l.CampaignID, other)
					}
					held[l.CampaignID] = k.Owner
				}
				mu.Unlock()
				if err != nil {
					return err
				}
				for _, l := range claimed.Leases {
					var head int64
					if err := pool.QueryRow(t.Context(), "SELECT max(seq) FROM tidemark.journal WHERE campaign_id = $1",
						l.CampaignID).Scan(&head); err != nil {
						return err
					}
					if _, err := pool.Exec(t.Context(), "SELECT tidemark.complete('g', $1, $2, $3)", []string{l.CampaignID},
						[]int64{l.Checkpoint}, []int64{head}); err != nil {
						return err
					}
					steps = append(steps, lease.Step{
						CampaignID: l.CampaignID, Generation: l.Generation, From: l.Checkpoint,
						To: head, Release: true,
					})
				}
				mu.Lock()
				for _, l := range claimed.Leases {
					delete(held, l.CampaignID)
				}
				mu.Unlock()
				if len(steps) > 0 {
					if err := advance(t.Context(), pool, k, steps...); err != nil {
						return err
					}
					continue
				}
				var done int
				if err := pool.QueryRow(t.Context(), "SELECT coalesce(sum(checkpoint), 0) FROM tidemark.leases").
					Scan(&done); err != nil || done == events+1 {
					return err
				}
			}
			return fmt.Errorf("%s has not seen the end", k.Owner)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	expect(t, "a claim around at the end", claim(t, pool, keeper("last"), 9).Leases, "")
}
