package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestOperatorsAtOnceLeaveNoCampaignDead(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
	manyDead(t, url, 498)
	operate(t, url)
	operate(t, url)
	var (
		got [4]result
		wg  sync.WaitGroup
	)
	for i := range got {
		wg.Go(func() {
			got[i] = execute(t, url, false, fmt.Sprintf("failed requeue --status dead --yes --wait --json --by operator%d", i))
		})
	}
	wg.Wait()
	good := []int{cli.ExitOK, cli.ExitPartial, cli.ExitConflict}
	for _, r := range got { // an act that comes last finds nothing to do
		if !slices.Contains(good, r.code) && !strings.Contains(r.err, "nothing matches the filter") {
			t.Fatalf("exit code %d: %s", r.code, r.err)
		}
	}
	if left := lines(t, url, `SELECT campaign_id FROM tidemark.failed WHERE status = 'dead'`); len(left) > 0 {
		t.Errorf("left dead: %q", left)
	}
}

// TestAnActThatOthersWereQuickerWithIsAConflictOrPartial lets other sessions change the campaigns
// before the worker reaches them.
func TestAnActThatOthersWereQuickerWithIsAConflictOrPartial(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]struct {
		code int
		says string
	}{
		`status = 'dead'`:                         {cli.ExitConflict, "none of 2 was done"},
		`status = 'dead' AND campaign_id = 'oak'`: {cli.ExitPartial, "1 of 2 have changed meanwhile"},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			url := database(t, "failed.sql")
			change(t, url, `CREATE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				DELETE FROM tidemark.failed WHERE `+where+`; RETURN NULL; END $$;
				CREATE TRIGGER meanwhile AFTER UPDATE OF total ON tidemark.operations FOR EACH STATEMENT EXECUTE FUNCTION meanwhile()`)
			operate(t, url)
			requireRun(t, url, "failed requeue --status dead --wait", want.code, want.says)
		})
	}
}

// TestAnActDoesNotWaitForLong holds a campaign's lease, as a worker does that applies it event by
// event.
func TestAnActDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
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
		"campaign pause oak", "campaign replay oak --projection scores --from 1",
	} {
		got := execute(t, pgtest.With(url, "lock_timeout", "50"), false, args)
		if got.code != cli.ExitConflict || got.out != "" {
			t.Errorf("%s: exit code %d, stdout %q: want %d", args, got.code, got.out, cli.ExitConflict)
		}
		for _, says := range []string{"another session is using it", "nothing was changed: try again in a moment"} {
			if !strings.Contains(got.err, says) {
				t.Errorf("%s: it says %q, want %q", args, got.err, says)
			}
		}
	}
	for _, args := range []string{
		"failed requeue scores oak",
		"projection pause scores", "group pause default",
	} {
		requireRun(t, pgtest.With(url, "lock_timeout", "50"), args, cli.ExitOK, "")
	}
}
