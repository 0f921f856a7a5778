package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// gapsOf returns a group's gaps as campaign:checkpoint:head, read with a limit of campaigns per
// call.
func gapsOf(t *testing.T, pool *pgxpool.Pool, group string, limit int) (found []string) {
	t.Helper()
	for after := ""; ; {
		gaps, next, err := outbox.Gaps(t.Context(), pool, group, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range gaps {
			found = append(found, fmt.Sprintf("%s:%d:%d", g.CampaignID, g.Checkpoint, g.Head))
		}
		if next == "" {
			return found
		}
		after = next
	}
}

func repair(t *testing.T, pool *pgxpool.Pool, r outbox.Repair) outbox.Repaired {
	t.Helper()
	done, err := r.Run(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// withGaps prepares group g. It has applied all of campaign a, and b has a work item. Of c and ф
// (an id that is not ASCII) it has applied two events, and the rest have no work item. It has never
// reached d. The rest of e are events that are not projected.
func withGaps(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	register(t, pool, "g")
	for _, campaign := range []string{"a", "b", "c", "d", "e", "ф"} {
		mustAppend(t, pool, campaign, 2)
		mustAppend(t, pool, campaign, 2)
	}
	for _, intent := range []event.Intent{event.AuditOnly, event.ReplayOnly} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "e", journal.Any, event.Event{Type: "noted", Intent: intent})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	exec(t, pool, "DELETE FROM tidemark.outbox WHERE campaign_id <> 'b'")
	exec(t, pool, `INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		VALUES ('g', 'a', '', 1, '-infinity', 4), ('g', 'c', '', 1, '-infinity', 2), ('g', 'ф', '', 1, '-infinity', 2),
			('g', 'e', '', 1, '-infinity', 4)`)
	return pool
}

func TestAGapIsWhatNobodyWouldComeToByItself(t *testing.T) {
	t.Parallel()
	pool := withGaps(t)
	for _, limit := range []int{0, 1, 2, 3, 6, 7} {
		if got, want := gapsOf(t, pool, "g", limit), []string{"ф:2:4", "d:0:4", "c:2:4"}; !slices.Equal(got, want) {
			t.Errorf("%d at a time: got gaps %v, want %v", limit, got, want)
		}
	}
	if got := gapsOf(t, pgtest.New(t), "g", 0); len(got) > 0 {
		t.Errorf("an empty journal has gaps %v", got)
	}
}

func TestRepairFilesEachGapOnce(t *testing.T) {
	t.Parallel()
	pool := withGaps(t)
	r := outbox.Repair{Group: "g", By: "ada", Reason: "a bad day", Chunk: 2}
	if got, want := repair(t, pool, r), (outbox.Repaired{Campaigns: 6, Gaps: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := items(t, pool, "g"), []string{"b:1-2", "b:3-4", "c:3-4", "d:1-4", "ф:3-4"}; !slices.Equal(got, want) {
		t.Errorf("got items %v, want %v", got, want)
	}
	rows, err := pool.Query(t.Context(),
		"SELECT concat_ws(' ', act, consumer_group, campaign_id, seq, actor, reason) FROM tidemark.failure_log ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	log, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{
		"repaired g ф 3 ada a bad day", "repaired g d 1 ada a bad day",
		"repaired g c 3 ada a bad day",
	}; !slices.Equal(log, want) {
		t.Errorf("the log says %q, want %q", log, want)
	}
	if got, want := repair(t, pool, r), (outbox.Repaired{Campaigns: 6}); got != want {
		t.Errorf("a second time: got %+v, want %+v", got, want)
	}
	exec(t, pool, "DELETE FROM tidemark.outbox WHERE campaign_id = 'b' AND seq > 2")
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, campaign := range []string{"a", "b", "d", "nobody's"} { // none of them is a gap by now
			if err := outbox.RepairGap(t.Context(), tx, outbox.Gap{Group: "g", CampaignID: campaign}, "ada", ""); err != nil {
				return err
			}
		}
		return nil
	})
	if n := count(t, pool, "SELECT count(*) FROM tidemark.outbox") + count(t, pool,
		"SELECT count(*) FROM tidemark.failure_log"); n != 7 || err != nil {
		t.Errorf("what is no gap by now was repaired: %d rows, %v", n, err)
	}
}

func TestAGapThatCannotBeRepairedStopsNoOther(t *testing.T) {
	t.Parallel()
	pool := withGaps(t)
	exec(t, pool, "ALTER TABLE tidemark.outbox ADD CONSTRAINT bad CHECK (campaign_id <> 'd')")
	var failed []string
	r := outbox.Repair{Group: "g", By: "ada", OnGap: func(g outbox.Gap, err error) {
		if err != nil {
			failed = append(failed, g.CampaignID)
		}
	}}
	if got, want := repair(t, pool, r), (outbox.Repaired{Campaigns: 6, Gaps: 3, Failed: 1}); got != want ||
		!slices.Equal(failed, []string{"d"}) {
		t.Errorf("got %+v, failed %v, want %+v and d", got, failed, want)
	}
	exec(t, pool, "ALTER TABLE tidemark.outbox DROP CONSTRAINT bad")
	if got, want := repair(t, pool, r), (outbox.Repaired{Campaigns: 6, Gaps: 1}); got != want {
		t.Errorf("again: got %+v, want %+v", got, want)
	}
}

func TestWhatIsAppendedAndAppliedMeanwhileIsNoGap(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	register(t, pool, "g")
	var others errgroup.Group
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for w := range 2 {
		others.Go(func() error {
			for i := 0; ctx.Err() == nil; i++ {
				campaign := fmt.Sprint(w, " ", i%20)
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return appendTo(t.Context(), tx, campaign, 3) })
				if err != nil {
					return err
				}
				_, err = pool.Exec(t.Context(), `WITH moved AS (
						INSERT INTO tidemark.leases AS l SELECT 'g', $1, '', 1, '-infinity', max(seq) FROM tidemark.journal
							WHERE campaign_id = $1
						ON CONFLICT (consumer_group, campaign_id) DO UPDATE SET checkpoint = excluded.checkpoint)
					DELETE FROM tidemark.outbox WHERE campaign_id = $1`, campaign)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 200 {
		if got := gapsOf(t, pool, "g", 7); len(got) > 0 {
			t.Fatalf("got gaps %v", got)
		}
	}
	stop()
	if err := others.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestARepairKeepsToItsRate(t *testing.T) {
	t.Parallel()
	pool := withGaps(t)
	start := time.Now()
	done := repair(t, pool, outbox.Repair{Group: "g", By: "ada", Rate: 20})
	if done.Gaps != 3 || time.Since(start) < 200*time.Millisecond {
		t.Errorf("%+v took %s at 20 campaigns a second", done, time.Since(start))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := (outbox.Repair{Group: "g", By: "ada", Rate: 1}).Run(ctx, pool); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("while it waited: %v", err)
	}
}

func TestGapsRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	expect := func(err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error with %q", err, says)
		}
	}
	_, _, err := outbox.Gaps(t.Context(), pool, "", "", 0)
	expect(err, "name the consumer group")
	_, _, err = outbox.Gaps(t.Context(), pool, "g", "", -1)
	expect(err, "-1")
	_, err = outbox.Repair{Group: "g"}.Run(t.Context(), pool)
	expect(err, "who")
	_, err = outbox.Repair{Group: "g", By: "ada", Rate: -5}.Run(t.Context(), pool)
	expect(err, "-5")
	expect(pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return outbox.RepairGap(t.Context(), tx, outbox.Gap{Group: "g", CampaignID: "a"}, "", "")
	}), "who")
}
