package pause_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// withWork returns a database where group g has projection p and work in campaigns a and b.
func withWork(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.consumer_groups (name) VALUES ('g'), ('h');
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
			VALUES ('p', 'g', 1, 'public', '{p}', 'active');
		SELECT tidemark.append(c, '[{"type": "noted"}]') FROM unnest('{a,b}'::text[]) AS u (c);
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
			VALUES ('a', 'p', 'g', 1, 'catching_up')`)
	return pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, pool *pgxpool.Pool, target pause.Target, d time.Duration) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return pause.Set(t.Context(), tx, target, "ada", "a bad day", d)
	})
}

func resume(t *testing.T, pool *pgxpool.Pool, target pause.Target) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return pause.Resume(t.Context(), tx, target, "bob", "mended")
	})
}

// claimable returns what a worker could claim: campaigns with work, then campaigns whose retry is
// due.
func claimable(t *testing.T, pool *pgxpool.Pool, group string) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	k := lease.Keeper{Group: group, Owner: "w", TTL: time.Minute}
	behind, err := k.ClaimBehind(t.Context(), tx, []string{"p"}, 9)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Release(t.Context(), tx, behind.Leases); err != nil {
		t.Fatal(err)
	}
	work, err := k.Claim(t.Context(), tx, "", 9, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range work.Leases {
		names = append(names, l.CampaignID)
	}
	for _, l := range behind.Leases {
		names = append(names, l.CampaignID+"!")
	}
	return strings.Join(names, " ")
}

func TestWhatIsPausedIsNotClaimed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target pause.Target
		want   string
	}{
		"a group":               {pause.Target{Group: "g"}, ""},
		"another group":         {pause.Target{Group: "h"}, "a b a!"},
		"a projection":          {pause.Target{Group: "g", Projection: "p"}, "a b"},
		"a campaign":            {pause.Target{Group: "g", CampaignID: "a"}, "b"},
		"another group's":       {pause.Target{Group: "h", CampaignID: "a"}, "a b a!"},
		"a campaign not behind": {pause.Target{Group: "g", CampaignID: "b"}, "a a!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := withWork(t)
			for range 2 { // the second pause replaces the first
				if err := set(t, pool, test.target, 0); err != nil {
					t.Fatal(err)
				}
			}
			if got := claimable(t, pool, "g"); got != test.want {
				t.Errorf("while it is paused %q can be claimed, want %q", got, test.want)
			}
			if err := resume(t, pool, test.target); err != nil {
				t.Fatal(err)
			}
			if got := claimable(t, pool, "g"); got != "a b a!" {
				t.Errorf("once it is resumed %q can be claimed", got)
			}
			if err := resume(t, pool, test.target); !errors.Is(err, pause.ErrNotPaused) {
				t.Errorf("resumed again: %v", err)
			}
		})
	}
}

func TestAPauseEndsByItself(t *testing.T) {
	t.Parallel()
	pool := withWork(t)
	targets := []pause.Target{
		{Group: "g"},
		{Group: "g", Projection: "p"},
		{Group: "g", CampaignID: "a"},
		{Group: "g", CampaignID: "b"},
	}
	for _, target := range targets {
		if err := set(t, pool, target, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if got := claimable(t, pool, "g"); got != "" {
		t.Errorf("while all is paused %q can be claimed", got)
	}
	exec(t, pool,
		"UPDATE tidemark.pauses SET expires_at = expires_at - interval '1 hour'; UPDATE tidemark.leases SET expires_at = "+
			"expires_at - interval '1 hour'")
	if got := claimable(t, pool, "g"); got != "a b a!" {
		t.Errorf("an hour later %q can be claimed", got)
	}
	if pauses, err := pause.List(t.Context(), pool, "", nil, 0); err != nil || len(pauses) > 0 {
		t.Errorf("an hour later the pauses are %v, %v", pauses, err)
	}
	for _, target := range targets {
		if err := resume(t, pool, target); !errors.Is(err, pause.ErrNotPaused) {
			t.Errorf("resumed an hour later: %v", err)
		}
	}
}

func TestResumingLeavesAWorkersLeaseAlone(t *testing.T) {
	t.Parallel()
	pool := withWork(t)
	if err := set(t, pool, pause.Target{Group: "g", CampaignID: "a"}, 0); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE tidemark.leases SET owner = 'w', expires_at = now() + interval '50 seconds'")
	if err := resume(t, pool, pause.Target{Group: "g", CampaignID: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := claimable(t, pool, "g"); got != "b" {
		t.Errorf("%q can be claimed, want b: a is held", got)
	}
}

func TestListAnswersPausesAndTheLogWhoMadeThem(t *testing.T) {
	t.Parallel()
	pool := withWork(t)
	for _, target := range []pause.Target{
		{Group: "h"},
		{Group: "g", CampaignID: "a"},
		{Group: "g", Projection: "p"},
		{Group: "g"},
	} {
		if err := set(t, pool, target, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := set(t, pool, pause.Target{Group: "g"}, 0); err != nil {
		t.Fatal(err)
	}
	pauses, err := pause.List(t.Context(), pool, "g", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []pause.Target
	for _, p := range pauses {
		got = append(got, p.Target)
		if p.By != "ada" || p.Reason != "a bad day" || time.Since(p.PausedAt).Abs() > time.Minute {
			t.Errorf("got %+v", p)
		}
		if forever := p.Target == (pause.Target{Group: "g"}); forever != p.ExpiresAt.IsZero() || !forever &&
			p.ExpiresAt.Sub(p.PausedAt) != time.Hour {
			t.Errorf("%s expires at %v", p.Target, p.ExpiresAt)
		}
	}
	if want := []pause.Target{
		{Group: "g", Projection: "p"},
		{Group: "g"},
		{Group: "g", CampaignID: "a"},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if all, err := pause.List(t.Context(), pool, "", nil, 0); err != nil || len(all) != 4 {
		t.Errorf("all groups have pauses %v, %v", all, err)
	}
	if err := resume(t, pool, pause.Target{Group: "g", CampaignID: "a"}); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(),
		"SELECT concat_ws(' ', act, consumer_group, projection, campaign_id, actor, reason) FROM tidemark.failure_log "+
			"ORDER BY id DESC LIMIT 3")
	if err != nil {
		t.Fatal(err)
	}
	log, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{
		"resumed g a bob mended", "paused g ada a bad day",
		"paused g ada a bad day",
	}; !reflect.DeepEqual(log, want) {
		t.Errorf("the log says %q, want %q", log, want)
	}
}

func TestSetRefusesWhatItCannotPause(t *testing.T) {
	t.Parallel()
	pool := withWork(t)
	for name, test := range map[string]struct {
		target pause.Target
		d      time.Duration
		says   string
	}{
		"no group":                   {pause.Target{}, 0, "name the consumer group"},
		"a group that is not":        {pause.Target{Group: "x"}, 0, `"x"`},
		"a projection that is not":   {pause.Target{Group: "g", Projection: "x"}, 0, `"x"`},
		"another group's projection": {pause.Target{Group: "h", Projection: "p"}, 0, `"p"`},
		"a campaign that is not":     {pause.Target{Group: "g", CampaignID: "x"}, 0, `"x"`},
		"two things":                 {pause.Target{Group: "g", Projection: "p", CampaignID: "a"}, 0, "one of them"},
		"a time past":                {pause.Target{Group: "g"}, -time.Second, "-1s"},
	} {
		if err := set(t, pool, test.target, test.d); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.says)
		}
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return pause.Set(t.Context(), tx, pause.Target{Group: "g"}, "", "", 0)
	})
	if err == nil || !strings.Contains(err.Error(), "who") {
		t.Errorf("by nobody: %v", err)
	}
	if got := claimable(t, pool, "g"); got != "a b a!" {
		t.Errorf("%q can be claimed: something was paused", got)
	}
}

func ExampleSet() {
	stop := func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return pause.Set(ctx, tx, pause.Target{Group: "default", Projection: "search"}, "ada", "the index moves",
				2*time.Hour)
		})
	}
	list := func(ctx context.Context, pool *pgxpool.Pool) error {
		pauses, err := pause.List(ctx, pool, "default", nil, 0)
		for _, p := range pauses {
			fmt.Println(p.Target, "by", p.By, "until", p.ExpiresAt)
		}
		return err
	}
	_, _ = stop, list
}
