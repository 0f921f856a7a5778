package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// mortal returns a keeper whose leases are so short that none predates the server's start.
func mortal(owner string) lease.Keeper {
	return lease.Keeper{Group: "g", Owner: owner, TTL: 10 * time.Millisecond}
}

// dies lets an owner claim everything, send a heartbeat, and never be seen again.
func dies(t *testing.T, pool *pgxpool.Pool, owner string) []lease.Lease {
	t.Helper()
	k := mortal(owner)
	if _, err := k.Beat(t.Context(), pool, "host", 1, 0, 0); err != nil {
		t.Fatal(err)
	}
	leases := claim(t, pool, k, 9).Leases
	unseen(t, pool, owner)
	return leases
}

// unseen expires the owner's leases and makes its last heartbeat older than they are.
func unseen(t *testing.T, pool *pgxpool.Pool, owner string) {
	t.Helper()
	exec(t, pool,
		"UPDATE tidemark.leases SET expires_at = clock_timestamp() WHERE owner = $1 AND expires_at > '-infinity'", owner)
	exec(t, pool, "UPDATE tidemark.workers SET seen_at = now() - interval '1 minute' WHERE owner = $1", owner)
}

// crashes describes the leases of a claim: each campaign with its crashes. If dead owners left
// marks, it adds the number of marks, the place of the last mark, and the number of deaths at that
// place.
func crashes(leases []lease.Lease) (s string) {
	for _, l := range leases {
		if l.Suspect == nil {
			s += fmt.Sprintf(" %s:0", l.CampaignID)
			continue
		}
		s += fmt.Sprintf(" %s:%d", l.CampaignID, l.Suspect.Crashes)
		if l.Suspect.Marked > 0 {
			s += fmt.Sprintf("!%d,%s/%d,%d", l.Suspect.Marked, l.Suspect.Projection, l.Suspect.Seq, l.Suspect.Deaths)
		}
	}
	return s
}

func expectCrashes(t *testing.T, what string, leases []lease.Lease, want string) {
	t.Helper()
	if got := crashes(leases); got != want {
		t.Errorf("%s:%s, want%s", what, got, want)
	}
}

func TestACampaignThatCostAProcessIsASuspect(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b")
	expectCrashes(t, "of nobody", dies(t, pool, "one"), " a:0 b:0")
	expectCrashes(t, "after one death", dies(t, pool, "two"), " a:1 b:1")

	three := mortal("three")
	leases := claim(t, pool, three, 9).Leases
	expectCrashes(t, "after two deaths", leases, " a:2 b:2")
	if err := three.Release(t.Context(), pool, leases); err != nil {
		t.Fatal(err)
	}
	expectCrashes(t, "once it was given back", claim(t, pool, mortal("four"), 9).Leases, " a:2 b:2")
}

func TestOnlyTheDeathOfAnOwnerCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql string
		ttl time.Duration
	}{
		"a_lease_that_was_given_back":                 {sql: `UPDATE tidemark.leases SET expires_at = '-infinity'`},
		"an_owner_that_was_seen_after_it_should_have": {sql: `UPDATE tidemark.workers SET seen_at = clock_timestamp()`},
		"an_owner_that_stopped_in_good_order":         {sql: `DELETE FROM tidemark.workers`},
		"an_operators_pause_that_has_ended":           {sql: `UPDATE tidemark.leases SET owner = 'paused'`},
		"a_lease_from_before_the_servers_start": {sql: `UPDATE tidemark.workers
			SET seen_at = '-infinity'`, ttl: 10000 * time.Hour},
	} {
		t.Run(name+"_does_not", func(t *testing.T) {
			t.Parallel()
			pool := withWork(t, "a")
			dies(t, pool, "one")
			exec(t, pool, c.sql)
			k := mortal("two")
			if c.ttl > 0 {
				k.TTL = c.ttl
			}
			expectCrashes(t, "the next claim", claim(t, pool, k, 9).Leases, " a:0")
		})
	}
}

func TestDeathsAreCountedTogetherOnlyWhereTheyBelongTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"not_those_of_one_owner": {`UPDATE tidemark.leases SET owner = 'one'; UPDATE tidemark.workers
			SET seen_at = now() - interval '1 minute'`, " a:1"},
		"not_those_at_an_earlier_checkpoint":       {`UPDATE tidemark.leases SET checkpoint = 1`, " a:1"},
		"not_those_of_long_ago":                    {`UPDATE tidemark.crashes SET at = at - interval '2 hours'`, " a:1"},
		"those_of_two_owners_at_the_same_place_do": {`SELECT 1`, " a:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := withWork(t, "a")
			dies(t, pool, "one")
			dies(t, pool, "two")
			exec(t, pool, "SELECT 1")
			for _, statement := range []string{c.sql} {
				if _, err := pool.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
			}
			expectCrashes(t, "the next claim", claim(t, pool, mortal("three"), 9).Leases, c.want)
		})
	}
	t.Run("and_none_of_an_owner_that_is_seen_again", func(t *testing.T) {
		t.Parallel()
		pool := withWork(t, "a")
		dies(t, pool, "one")
		dies(t, pool, "two")
		if _, err := mortal("one").Beat(t.Context(), pool, "host", 1, 0, 0); err != nil {
			t.Fatal(err)
		}
		expectCrashes(t, "the next claim", claim(t, pool, mortal("three"), 9).Leases, " a:1")
	})
}

// diesAt lets an owner die after it has marked the events 6 and then seq of campaign a for
// projection p. With seq 0 it marks the whole campaign.
func diesAt(t *testing.T, pool *pgxpool.Pool, owner string, seq int64) {
	t.Helper()
	l := dies(t, pool, owner)[0]
	mark(t, pool, owner, l, seq)
}

func mark(t *testing.T, pool *pgxpool.Pool, owner string, l lease.Lease, seq int64) {
	t.Helper()
	if seq == 0 {
		if err := mortal(owner).Mark(t.Context(), pool, l, "", 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, at := range []int64{6, seq} {
		if err := mortal(owner).Mark(t.Context(), pool, l, "p", at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMarkNamesWhatItsAuthorDiedOf(t *testing.T) {
	t.Parallel()
	suspected := func(t *testing.T) (*pgxpool.Pool, lease.Lease) {
		t.Helper()
		pool := withWork(t, "a")
		dies(t, pool, "one")
		dies(t, pool, "two")
		return pool, dies(t, pool, "three")[0]
	}
	for name, c := range map[string]struct {
		die  []int64 // the mark of each dead owner; 0: the campaign
		want string
	}{
		"of_a_campaign":                          {[]int64{0}, " a:3!1,/0,1"},
		"of_an_event":                            {[]int64{7}, " a:3!1,p/7,1"},
		"of_an_event_after_its_campaign":         {[]int64{0, 7}, " a:4!2,p/7,2"},
		"of_an_event_time_and_again":             {[]int64{0, 7, 7}, " a:5!3,p/7,3"},
		"of_another_event_each_time":             {[]int64{0, 7, 8}, " a:5!3,p/8,2"},
		"of_an_event_that_was_not_the_last_time": {[]int64{7, 8, 7}, " a:5!3,p/7,2"},
	} {
		t.Run(name+"_to_the_next_owner", func(t *testing.T) {
			t.Parallel()
			pool := withWork(t, "a")
			dies(t, pool, "one")
			dies(t, pool, "two")
			for i, seq := range c.die {
				diesAt(t, pool, fmt.Sprintf("marker %d", i), seq)
			}
			expectCrashes(t, "the next claim", claim(t, pool, mortal("last"), 9).Leases, c.want)
		})
	}
	t.Run("not_while_it_lives", func(t *testing.T) {
		t.Parallel()
		pool, l := suspected(t)
		mark(t, pool, "three", l, 7)
		if _, err := mortal("three").Beat(t.Context(), pool, "host", 1, 0, 0); err != nil {
			t.Fatal(err)
		}
		expectCrashes(t, "the next claim", claim(t, pool, mortal("four"), 9).Leases, " a:2")
	})
	t.Run("not_when_it_was_removed", func(t *testing.T) {
		t.Parallel()
		pool, l := suspected(t)
		mark(t, pool, "three", l, 7)
		if err := mortal("three").Unmark(t.Context(), pool, l); err != nil {
			t.Fatal(err)
		}
		expectCrashes(t, "the next claim", claim(t, pool, mortal("four"), 9).Leases, " a:3")
	})
	t.Run("only_under_its_lease", func(t *testing.T) {
		t.Parallel()
		pool, l := suspected(t)
		claim(t, pool, mortal("four"), 9)
		if err := mortal("three").Mark(t.Context(), pool, l, "p", 7); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a mark without the lease: %v", err)
		}
	})
}

func TestDeathsWithoutAMarkAreCountedToo(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a")
	unexplained := func(owner string, want int) {
		t.Helper()
		l := dies(t, pool, owner)[0]
		if l.Suspect == nil || l.Suspect.Unexplained != want {
			t.Errorf("to %s the campaign is %+v, want %d deaths without a mark", owner, l.Suspect, want)
		}
	}
	dies(t, pool, "one")
	unexplained("two", 1)
	diesAt(t, pool, "three", 0)
	unexplained("four", 2)
	exec(t, pool, `INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held,
		events_applied) VALUES ('elsewhere', 'g', 'h', 1, now(), now() - interval '5 minutes', 0, 0),
		('alive', 'g', 'h', 1, now(), now() + interval '1 hour', 0, 0),
			('long ago', 'g', 'h', 1, now(), now() - interval '5 hours', 0, 0),
			('of another group', 'h', 'h', 1, now(), now() - interval '5 minutes', 0, 0)`)
	unexplained("five", 4)
	batch := &pgx.Batch{}
	mortal("six").Explained(batch, "a")
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE tidemark.leases SET expires_at = '-infinity'`)
	unexplained("six", 2) // the rest: five, whose death was not known then, and the one elsewhere
}

func TestACampaignThatGotFurtherIsNoSuspect(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a", "b")
	dies(t, pool, "one")
	dies(t, pool, "two")
	three := mortal("three")
	claim(t, pool, three, 9)
	batch := &pgx.Batch{}
	three.Survived(batch, []string{"a"})
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE tidemark.leases SET expires_at = '-infinity'")
	expectCrashes(t, "the next claim", claim(t, pool, mortal("four"), 9).Leases, " a:0 b:2")
}

func TestARetryKnowsItsSuspectsToo(t *testing.T) {
	t.Parallel()
	pool := withWork(t, "a")
	exec(t, pool, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		VALUES ('p', 'g', 1, 'public', '{}', 'active')`)
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
		VALUES ('a', 'p', 'g', 1, 'failed')`)
	dies(t, pool, "one")
	dies(t, pool, "two")
	claimed, err := mortal("three").ClaimBehind(t.Context(), pool, []string{"p"}, 9)
	if err != nil {
		t.Fatal(err)
	}
	expectCrashes(t, "the claim", claimed.Leases, " a:2")
}
