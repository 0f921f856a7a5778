package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func keeper(owner string) lease.Keeper {
	return lease.Keeper{Group: "g", Owner: owner, TTL: time.Hour}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// withWork gives each campaign a work item in group g.
func withWork(t *testing.T, campaigns ...string) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT 'g', c, 1, now(), 1 FROM unnest($1::text[]) AS u (c)`, campaigns)
	return pool
}

// expire makes leases expire now.
func expire(t *testing.T, pool *pgxpool.Pool, campaigns ...string) {
	t.Helper()
	exec(t, pool, `UPDATE tidemark.leases SET expires_at = now() - interval '1 s' WHERE campaign_id = ANY ($1)`, campaigns)
}

// claim claims from the start of the outbox. Its timeout is too short to wait for a lock.
func claim(t *testing.T, db lease.DB, k lease.Keeper, limit int) lease.Claimed {
	t.Helper()
	return claimAfter(t, db, k, "", limit)
}

func claimAfter(t *testing.T, db lease.DB, k lease.Keeper, cursor string, limit int) lease.Claimed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	claimed, err := k.Claim(ctx, db, cursor, limit, 0)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// named formats leases as campaign:generation:checkpoint.
func named(leases []lease.Lease) string {
	var names []string
	for _, l := range leases {
		names = append(names, fmt.Sprintf("%s:%d:%d", l.CampaignID, l.Generation, l.Checkpoint))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func expect(t *testing.T, what string, leases []lease.Lease, want string) {
	t.Helper()
	if got := named(leases); got != want {
		t.Errorf("%s: got leases %q, want %q", what, got, want)
	}
}

func TestClaimTakesCampaignsThatHaveWorkAndNoOwner(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b", "c")
	exec(t, pool, `INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		VALUES ('h', 'z', 1, now(), 1), ('g', 'a', 2, now(), 1)`)
	one, two := keeper("one"), keeper("two")

	first := claim(t, pool, one, 2)
	expect(t, "the first two", first.Leases, "a:1:0 b:1:0")
	expect(t, "what is left", claim(t, pool, two, 9).Leases, "c:1:0")
	none := claim(t, pool, two, 9)
	expect(t, "nothing left", none.Leases, "")
	if in := time.Until(none.Retry); in < 50*time.Minute || in > 70*time.Minute {
		t.Errorf("the earliest lease in the way is said to expire in %s", in)
	}
	other := lease.Keeper{Group: "h", Owner: "one", TTL: time.Hour}
	expect(t, "another group", claim(t, pool, other, 9).Leases, "z:1:0")
	unknown := claim(t, pool, lease.Keeper{Group: "nobody's", Owner: "one", TTL: time.Hour}, 9)
	if len(unknown.Leases) > 0 || !unknown.Retry.IsZero() {
		t.Errorf("a group without work got %+v", unknown)
	}

	if err := one.Release(t.Context(), pool, first.Leases[:1]); err != nil {
		t.Fatal(err)
	}
	expect(t, "what was given back", claim(t, pool, two, 9).Leases, "a:2:0")
}

func TestAnExpiredLeaseIsTakenOverWithItsCheckpoint(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b")
	one, two := keeper("one"), keeper("two")
	leases := claim(t, pool, one, 9).Leases
	if err := advance(t.Context(), pool, one, lease.Step{CampaignID: "a", Generation: 1, From: 0, To: 7}); err != nil {
		t.Fatal(err)
	}
	expire(t, pool, "a")
	expect(t, "before its own owner renews", claim(t, pool, two, 9).Leases, "a:2:7")

	held, err := one.Renew(t.Context(), pool, leases)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "what the first owner still holds", held, "b:1:0")
	if err := one.Release(t.Context(), pool, leases); err != nil {
		t.Fatal(err)
	}
	expect(t, "what the first owner gave back", claim(t, pool, keeper("three"), 9).Leases, "b:2:0")
}

func TestTheCursorGivesEveryCampaignATurn(t *testing.T) {
	t.Parallel()
	order := []string{"B", "a", "aa", "b", "ä"} // in byte order
	pool := withWork(t, order...)
	k := keeper("one")
	cursor := ""
	for i := range 3 * len(order) {
		claimed := claimAfter(t, pool, k, cursor, 1)
		if len(claimed.Leases) != 1 || claimed.Leases[0].CampaignID != order[i%len(order)] {
			t.Fatalf("claim %d after %q got %v, want %s", i, cursor, claimed.Leases, order[i%len(order)])
		}
		if err := k.Release(t.Context(), pool, claimed.Leases); err != nil {
			t.Fatal(err)
		}
		cursor = claimed.Cursor
	}
	all := claimAfter(t, pool, k, "aa", 4)
	if len(all.Leases) != 4 || all.Cursor != "a" {
		t.Errorf("a claim of four after aa ended at %q with %v", all.Cursor, all.Leases)
	}
	if rest := claimAfter(t, pool, k, "zzz", 4); len(rest.Leases) != 1 || rest.Leases[0].CampaignID != "aa" {
		t.Errorf("a claim from beyond the end got %v", rest.Leases)
	}
}

func TestALeaseThatIsBeingWrittenIsSkipped(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b", "c")
	one, two := keeper("one"), keeper("two")
	if err := one.Release(t.Context(), pool, claim(t, pool, one, 9).Leases); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE tidemark.leases SET checkpoint = 3 WHERE campaign_id = 'b'"); err != nil {
		t.Fatal(err)
	}
	expect(t, "while b is written", claim(t, pool, two, 9).Leases, "a:2:0 c:2:0")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "when it is not", claim(t, pool, two, 9).Leases, "b:2:3")
}

// TestOwnersShareTheWorkWithoutOverlap lets owners claim, advance, renew and release concurrently.
// No campaign may have two owners, no generation may be given twice, and no advance may be lost.
func TestOwnersShareTheWorkWithoutOverlap(t *testing.T) {
	t.Parallel()
	const owners, rounds, campaigns = 8, 40, 20
	ids := make([]string, campaigns)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%02d", i)
	}
	pool := withWork(t, ids...)
	var mu sync.Mutex
	owner := map[string]string{}
	generation, checkpoint := map[string]int64{}, map[string]int64{}
	take := func(k lease.Keeper, leases []lease.Lease) error {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range leases {
			if owner[l.CampaignID] != "" {
				return fmt.Errorf("%s got %s, which %s has", k.Owner, l.CampaignID, owner[l.CampaignID])
			}
			if l.Generation <= generation[l.CampaignID] || l.Checkpoint != checkpoint[l.CampaignID] {
				return fmt.Errorf("%s got %+v after generation %d, checkpoint %d", k.Owner, l, generation[l.CampaignID],
					checkpoint[l.CampaignID])
			}
			owner[l.CampaignID], generation[l.CampaignID] = k.Owner, l.Generation
		}
		return nil
	}
	give := func(leases []lease.Lease, moved int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range leases {
			delete(owner, l.CampaignID)
			checkpoint[l.CampaignID] += moved
		}
	}
	var g errgroup.Group
	for i := range owners {
		g.Go(func() error {
			k := keeper(fmt.Sprint("owner ", i))
			random := rand.New(rand.NewPCG(uint64(i), 3))
			cursor := ""
			for range rounds {
				claimed, err := k.Claim(t.Context(), pool, cursor, 1+random.IntN(campaigns), 0)
				if err != nil {
					return err
				}
				cursor = claimed.Cursor
				if err := take(k, claimed.Leases); err != nil {
					return err
				}
				if held, err := k.Renew(t.Context(), pool, claimed.Leases); err != nil || len(held) != len(claimed.Leases) {
					return fmt.Errorf("%s holds %v of %v, %w", k.Owner, held, claimed.Leases, err)
				}
				if random.IntN(3) == 0 {
					give(claimed.Leases, 0)
					if err := k.Release(t.Context(), pool, claimed.Leases); err != nil {
						return err
					}
					continue
				}
				var steps []lease.Step
				for _, l := range claimed.Leases {
					steps = append(steps, lease.Step{
						CampaignID: l.CampaignID, Generation: l.Generation, From: l.Checkpoint,
						To: l.Checkpoint + 1, Release: true,
					})
				}
				random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
				give(claimed.Leases, 1)
				if err := advance(t.Context(), pool, k, steps...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, l := range claim(t, pool, keeper("last"), 2*campaigns).Leases {
		if l.Checkpoint != checkpoint[l.CampaignID] {
			t.Errorf("%+v, want checkpoint %d", l, checkpoint[l.CampaignID])
		}
		delete(checkpoint, l.CampaignID)
	}
	if len(checkpoint) > 0 {
		t.Errorf("nobody could claim %v in the end", checkpoint)
	}
}

func TestClaimBehindTakesWhatIsDueForProjectionsItKnows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		VALUES ('p', 'g', 1, 'public', '{p}', 'active'), ('new', 'g', 1, 'public', '{new}', 'joining')`)
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		attempt_count, next_attempt_at)
		SELECT c, p, g, 1, s, 1, coalesce(now() + make_interval(mins => due), 'infinity') FROM (VALUES
			('oldest', 'p', 'g', 'failed', -9), ('due', 'p', 'g', 'catching_up', -5), ('twice', 'p', 'g', 'failed', -4),
				('twice', 'q', 'g', 'failed', -4),
			('later', 'p', 'g', 'failed', 30), ('last', 'p', 'g', 'failed', 60), ('dead', 'p', 'g', 'dead', NULL),
			('unknown', 'x', 'g', 'failed', -20), ('joining', 'new', 'g', 'catching_up', -20),
				('other group', 'p', 'h', 'failed', -20)
		) AS v (c, p, g, s, due)`)
	one, two := keeper("one"), keeper("two")
	known := []string{"p", "q", "new"}
	behind := func(k lease.Keeper, limit int) lease.Claimed {
		claimed, err := k.ClaimBehind(t.Context(), pool, known, limit)
		if err != nil {
			t.Fatal(err)
		}
		return claimed
	}
	expect(t, "the oldest", behind(one, 1).Leases, "oldest:1:0")
	expect(t, "the others that are due", behind(two, 9).Leases, "due:1:0 twice:1:0")
	none := behind(two, 9)
	expect(t, "nothing due", none.Leases, "")
	if in := time.Until(none.Retry); in < 25*time.Minute || in > 35*time.Minute {
		t.Errorf("the next is said to be due in %s", in)
	}
}

func advance(ctx context.Context, pool *pgxpool.Pool, k lease.Keeper, steps ...lease.Step) error {
	batch := &pgx.Batch{}
	k.Advance(batch, steps)
	return lease.Error(pool.SendBatch(ctx, batch).Close())
}

func TestWhatIsClaimedAheadIsFoundByWhatFollowsAndKeptWithoutIt(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b", "c")
	exec(t, pool, `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ('g', 'b', 'other', 3, '-infinity', 7)`)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	k := keeper("one")
	ahead := func(after string) (claimed lease.Claimed, found string) {
		batch := &pgx.Batch{}
		batch.Queue("BEGIN")
		k.ClaimAhead(batch, after, 2, 0, func(c lease.Claimed) { claimed = c })
		batch.Queue("COMMIT")
		batch.Queue("BEGIN")
		batch.Queue(`SELECT coalesce(string_agg(concat(c, ':', n), ' ' ORDER BY c), '')
			FROM unnest(tidemark.claimed_campaigns(), tidemark.claimed_checkpoints()) AS u (c, n)`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&found) })
		batch.Queue("ROLLBACK")
		if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
		return claimed, found
	}
	first, found := ahead("")
	expect(t, "first claim", first.Leases, "a:1:0 b:4:7")
	if found != "a:0 b:7" {
		t.Errorf("behind the first claim there is %q", found)
	}
	second, found := ahead(first.Cursor)
	expect(t, "second claim", second.Leases, "c:1:0")
	if found != "c:0" {
		t.Errorf("behind the second claim there is %q", found)
	}
	if third, found := ahead(second.Cursor); len(third.Leases) > 0 || found != "" {
		t.Errorf("a claim of nothing claimed %s and left %q", named(third.Leases), found)
	}
	held, err := k.StillHeld(t.Context(), pool, append(first.Leases, second.Leases...))
	if err != nil || len(held) != 3 {
		t.Errorf("after what followed was rolled back %v are held, %v", held, err)
	}
}
