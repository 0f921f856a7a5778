package command

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestTwoOperatorsAtOnceRequeueEachPairOnce(t *testing.T) {
	t.Parallel()
	url := database(t, "deferred.sql")
	manyDead(t, url, 498)
	var (
		got [4]result
		wg  sync.WaitGroup
	)
	for i := range got {
		wg.Go(func() {
			got[i] = execute(t, url, false, fmt.Sprintf("failed requeue --status dead --yes --json --by operator%d", i))
		})
	}
	wg.Wait()
	total := int64(0)
	for _, r := range got {
		if r.code != cli.ExitOK && r.code != cli.ExitPartial && r.code != cli.ExitConflict {
			t.Fatalf("exit code %d: %s", r.code, r.err)
		}
		total += decoded[chosen](t, r.out).Count
	}
	if total != 500 {
		t.Errorf("the operators requeued %d pairs, there were 500", total)
	}
	if twice := lines(t, url, `SELECT concat_ws(' ', campaign_id, projection) FROM tidemark.failure_log
		WHERE act = 'requeued' GROUP BY campaign_id, projection HAVING count(*) > 1`); len(twice) > 0 {
		t.Errorf("requeued twice: %q", twice)
	}
	if left := lines(t, url, `SELECT campaign_id FROM tidemark.deferred WHERE status = 'dead'`); len(left) > 0 {
		t.Errorf("left dead: %q", left)
	}
}

func TestAnActThatOthersWereQuickerWithIsAConflictOrPartial(t *testing.T) {
	t.Parallel()
	url := database(t, "deferred.sql")
	locks := func(sql string) (release func()) {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		return func() { _ = conn.Close(t.Context()) }
	}
	release := locks(`SELECT FROM tidemark.deferred WHERE status = 'dead' FOR UPDATE`)
	got := execute(t, url, false, "failed requeue --status dead")
	if got.code != cli.ExitConflict || !strings.Contains(got.err, "none of 2 failed campaigns was requeued") {
		t.Errorf("while somebody writes both: exit code %d, %q", got.code, got.err)
	}
	release()
	release = locks(`SELECT FROM tidemark.deferred WHERE status = 'dead' AND campaign_id = 'oak' FOR UPDATE`)
	defer release()
	got = execute(t, url, false, "failed requeue --status dead")
	if got.code != cli.ExitPartial || !strings.Contains(got.err, "1 of 2 failed campaigns were requeued") ||
		!strings.Contains(got.out, "scores\telm") {
		t.Errorf("while somebody writes one: exit code %d, %q, %q", got.code, got.out, got.err)
	}
}

// TestAnActDoesNotWaitForLong holds a campaign's lease as a worker does that applies it carefully.
func TestAnActDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	url := database(t, "deferred.sql")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tag, err := tx.Exec(t.Context(), `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation,
		expires_at, checkpoint) VALUES ('default', 'oak', 'w', 1, 'infinity', 0)
		ON CONFLICT (consumer_group, campaign_id) DO UPDATE SET owner = 'w'`); err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	for _, args := range []string{
		"failed resolve scores oak --seq 2 --reason r",
		"campaign pause oak", "campaign replay --campaign oak --projection scores --from 1",
	} {
		got := execute(t, pgtest.With(url, "lock_timeout", "50"), false, args)
		if got.code != cli.ExitConflict || got.out != "" {
			t.Errorf("%s: exit code %d, stdout %q: want %d", args, got.code, got.out, cli.ExitConflict)
		}
		for _, says := range []string{"somebody else is at work on it", "nothing was changed: run it again in a moment"} {
			if !strings.Contains(got.err, says) {
				t.Errorf("%s: it says %q, want %q", args, got.err, says)
			}
		}
	}
	for _, args := range []string{
		"failed requeue scores oak",
		"failed retry scores oak", "projection pause scores", "group pause default",
	} {
		requireRun(t, pgtest.With(url, "lock_timeout", "50"), args, cli.ExitOK, "")
	}
}
