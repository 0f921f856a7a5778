package failed_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func requeue(t *testing.T, pool *pgxpool.Pool, f failed.Filter) []string {
	t.Helper()
	var keys []failed.Key
	if err := in(t, pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		keys, err = bulk.Requeue(ctx, tx, f, operator())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names(keys)
}

func TestAnActOnOnePair(t *testing.T) {
	t.Parallel()
	acts := map[string]func(ctx context.Context, tx pgx.Tx, key failed.Key, act failed.Act) error{
		"requeue": failed.Requeue,
		"resolve": func(ctx context.Context, tx pgx.Tx, key failed.Key, act failed.Act) error {
			return failed.Resolve(ctx, tx, key, 5, act)
		},
	}
	for _, c := range []struct {
		act, before string
		want        string // the row
		logged      string
		err         error
	}{
		{
			act: "requeue", before: "dead", want: "5 failed attempts 0 due 22012",
			logged: "requeued g p c 5 by ada: the handler is fixed",
		},
		{
			act: "requeue", before: "failed", want: "5 failed attempts 0 due 22012",
			logged: "requeued g p c 5 by ada: the handler is fixed",
		},
		{
			act: "requeue", before: "catching_up", want: "5 catching_up attempts 0 due no error",
			err: failed.ErrConflict,
		},
		{act: "requeue", before: "none", err: failed.ErrNotFound},
		{
			act: "resolve", before: "dead", want: "6 catching_up attempts 0 due no error",
			logged: "resolved g p c 5 by ada: the handler is fixed",
		},
		{
			act: "resolve", before: "failed", want: "6 catching_up attempts 0 due no error",
			logged: "resolved g p c 5 by ada: the handler is fixed",
		},
		{
			act: "resolve", before: "catching_up", want: "5 catching_up attempts 0 due no error",
			err: failed.ErrConflict,
		},
		{act: "resolve", before: "none", err: failed.ErrNotFound},
	} {
		t.Run(c.act+"_of_"+c.before, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			key := failed.Key{Projection: "p", CampaignID: "c"}
			switch c.before {
			case "catching_up":
				rebuild(t, pool, "p", "c", 5)
			case "dead", "failed":
				fail(t, pool, failed.Status(c.before), "p", "c", 5)
			}
			err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error { return acts[c.act](ctx, tx, key, operator()) })
			if !errors.Is(err, c.err) {
				t.Fatalf("got error %v, want %v", err, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), key.String()) {
				t.Errorf("the error does not name the pair: %v", err)
			}
			if c.before != "none" {
				if got := standing(t, pool, key); got != c.want {
					t.Errorf("the pair stands at %q, want %q", got, c.want)
				}
			}
			if got := strings.Join(logged(t, pool), "; "); got != c.logged {
				t.Errorf("the log says %q, want %q", got, c.logged)
			}
		})
	}
}

func TestAnActSaysWhoAndLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	key := fail(t, pool, failed.Dead, "p", "c", 5)
	long := strings.Repeat("x", 4097)
	for name, act := range map[string]failed.Act{
		"By is missing":      {},
		"By has 4097 bytes":  {By: long},
		"Reason has 4097":    {By: "ada", Reason: long},
		`Reason is "\x00"`:   {By: "ada", Reason: "\x00"},
		`By is "\xff"`:       {By: "\xff"},
		"By is missing: say": {By: " \t"},
	} {
		err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error { return failed.Requeue(ctx, tx, key, act) })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
	broken := errors.New("the operator's program fails afterwards")
	err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(failed.Requeue(ctx, tx, key, operator()), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if got, want := standing(t, pool, key), "5 dead attempts 8 never 22012"; got != want {
		t.Errorf("the pair stands at %q, want %q", got, want)
	}
	if got := logged(t, pool); len(got) > 0 {
		t.Errorf("the log says %q of what did not happen", got)
	}
}

func TestRequeueingWhatStandsBeforeAnEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fail(t, pool, failed.Dead, "q", "c", 5)
	fail(t, pool, failed.Failed, "p", "c", 5)
	later := fail(t, pool, failed.Dead, "r", "c", 6)
	rebuild(t, pool, "s", "c", 5)
	other := fail(t, pool, failed.Dead, "p", "d", 5)
	seq := func(group, campaign string, seq int64) (keys []failed.Key, err error) {
		err = in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
			keys, err = failed.RequeueSeq(ctx, tx, group, campaign, seq, operator())
			return err
		})
		return keys, err
	}
	for _, nothing := range []struct {
		group, campaign string
		seq             int64
	}{{"", "c", 4}, {"another", "c", 5}, {"", "nobody", 5}} {
		if _, err := seq(nothing.group, nothing.campaign, nothing.seq); !errors.Is(err, failed.ErrNotFound) {
			t.Errorf("%v: got error %v", nothing, err)
		}
	}
	keys, err := seq("g", "c", 5)
	if got, want := names(keys), []string{"p/c", "q/c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("requeued %v, %v, want %v", got, err, want)
	}
	for _, key := range []failed.Key{later, other} {
		if got := standing(t, pool, key); !strings.Contains(got, "dead") {
			t.Errorf("%s is %s", key, got)
		}
	}
	if got := logged(t, pool); len(got) != 2 {
		t.Errorf("the log says %q", got)
	}
}

func TestRequeueingManyKeepsTheirOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fail(t, pool, failed.Dead, "p", "d", 2)
	fail(t, pool, failed.Dead, "p", "c", 7)
	fail(t, pool, failed.Dead, "q", "d", 2)
	fail(t, pool, failed.Failed, "p", "b", 3)
	fail(t, pool, failed.Failed, "p", "a", 4)
	rebuild(t, pool, "p", "e", 1)
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = next_attempt_at - interval '1 minute'
		WHERE campaign_id = 'a'`)
	if got, want := requeue(t, pool, failed.Filter{Limit: 3}), []string{"p/a", "p/b", "p/d"}; !slices.Equal(got, want) {
		t.Errorf("first came %v, want %v", got, want)
	}
	due := lines(t, pool, `SELECT campaign_id FROM tidemark.failed WHERE status = 'failed' AND next_attempt_at <= now()
		ORDER BY next_attempt_at`)
	if want := []string{"a", "b", "d"}; !slices.Equal(due, want) {
		t.Errorf("they are due in the order %v, want %v", due, want)
	}
	if got, want := requeue(t, pool, failed.Filter{Status: []failed.Status{failed.Dead}}),
		[]string{"q/d", "p/c"}; !slices.Equal(got, want) {
		t.Errorf("then came %v, want %v", got, want)
	}
	if got := logged(t, pool); len(got) != 5 {
		t.Errorf("the log has %d rows for 5 acts: %q", len(got), got)
	}
}

func TestTwoOperatorsRequeueEachPairOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, c := range []string{"a", "b", "c", "d", "e", "f"} {
		fail(t, pool, failed.Failed, "p", c, 1)
	}
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = 'epoch'`) // due before anything that is requeued
	begin := func() pgx.Tx {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	act := func(tx pgx.Tx, limit int) []string {
		keys, err := bulk.Requeue(t.Context(), tx, failed.Filter{Limit: limit}, operator())
		if err != nil {
			t.Fatal(err)
		}
		return names(keys)
	}
	first, second, third := begin(), begin(), begin()
	if got, want := act(first, 2), []string{"p/a", "p/b"}; !slices.Equal(got, want) {
		t.Errorf("the first got %v, want %v", got, want)
	}
	if got, want := act(second, 3), []string{"p/c", "p/d", "p/e"}; !slices.Equal(got, want) {
		t.Errorf("the second got %v, want %v: what the first holds takes no room", got, want)
	}
	if got, want := act(third, 3), []string{"p/f"}; !slices.Equal(got, want) {
		t.Errorf("the third got %v, want %v", got, want)
	}
	for _, tx := range []pgx.Tx{first, second, third} {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := query[int](t, pool, `SELECT count(*) FROM (SELECT campaign_id FROM tidemark.failure_log GROUP BY campaign_id
		HAVING count(*) = 1) c`); n != 6 {
		t.Errorf("%d of 6 pairs were requeued once: %q", n, logged(t, pool))
	}
}

// An operator who has found a campaign before another act on it commits must not requeue it
// afterwards.
func TestAPairThatChangesBetweenFindingAndLockingIsPassedBy(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fail(t, pool, failed.Failed, "p", "a", 1)
	fail(t, pool, failed.Failed, "p", "b", 1)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	between := &interrupted{Tx: tx, before: 3, do: func() { requeue(t, pool, failed.Filter{CampaignID: "a"}) }}
	keys, err := bulk.Requeue(t.Context(), between, failed.Filter{}, operator())
	if got, want := names(keys), []string{"p/b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := logged(t, pool); len(got) != 2 {
		t.Errorf("the log says %q", got)
	}
}

// interrupted is a transaction that calls do before one of its queries.
type interrupted struct {
	pgx.Tx
	before int
	do     func()
}

func (i *interrupted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if i.before--; i.before == 0 {
		i.do()
	}
	return i.Tx.Query(ctx, sql, args...)
}
