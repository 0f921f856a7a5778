package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/test/support/acting"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func runner(t *testing.T, pool *pgxpool.Pool, change func(*admin.RunnerConfig)) *admin.Runner {
	t.Helper()
	cfg := admin.RunnerConfig{Pool: pool, Owner: "runner", Batch: 40}
	if change != nil {
		change(&cfg)
	}
	r, err := admin.NewRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func operation(t *testing.T, o *admin.Outcome, err error) (op admin.Operation) {
	t.Helper()
	if err == nil {
		err = json.Unmarshal(o.Detail, &op)
	}
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// startBulk is an act on all that a filter chooses, by one who has typed a text.
func startBulk(
	t *testing.T, acts *admin.Acts, by admin.Request, bulk admin.Bulk, typed string,
) (*admin.Outcome, error) {
	t.Helper()
	by.Confirm = typed
	return acts.Do(t.Context(), by, admin.Act{Kind: admin.ActStartOperation},
		func(ctx context.Context, tx pgx.Tx) (any, error) { return acts.StartBulk(ctx, tx, by, bulk) })
}

func TestABulkActIsAboutWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 101)
	bulk := admin.Bulk{Kind: admin.OpResolve, Failed: &admin.FailedFilter{Fingerprint: "f"}}
	preview, err := acts.PreviewBulk(t.Context(), bulk)
	if err != nil || preview.Count != 101 || len(preview.Sample) != 10 || preview.Confirm != "resolve 101" {
		t.Fatalf("preview %+v, %v", preview, err)
	}
	if _, err := startBulk(t, acts, as(auth.Admin), bulk, "resolve 101"); !errors.Is(err, admin.ErrInvalid) {
		t.Errorf("it leaves out events that nobody was shown: %v", err)
	}
	bulk = preview.Bulk
	if _, err := startBulk(t, acts, as(auth.Admin), bulk, "yes"); !errors.Is(err, admin.ErrDeclined) {
		t.Errorf("typed yes: %v", err)
	}
	if _, err := acting.Do(t.Context(), acts, as(auth.Operator), "resolveManyFailed", "fingerprint=f"); !errors.Is(err,
		admin.ErrForbidden) {
		t.Errorf("an operator resolves: %v", err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operations`); n != 0 {
		t.Fatalf("%d operations are left of what was declined", n)
	}
	// A failure since the preview neither refuses the act nor joins it, although it sorts before
	// all others.
	exec(t, pool, `SELECT tidemark.append('a meanwhile', '[{"type": "noted"}]');
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
			fingerprint, first_failed_at) VALUES ('a meanwhile', 'p', 'g', 1, 'dead', 'infinity', 'f', now())`)
	outcome, err := startBulk(t, acts, as(auth.Admin), bulk, "resolve 101")
	op := operation(t, outcome, err)
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operation_items
		WHERE campaign_id = 'a meanwhile'`); n != 0 || op.Total != 101 {
		t.Errorf("it is about %d, what failed meanwhile among them: %d", op.Total, n)
	}
	// A failure after the start does not join the act. An item that has moved on is left alone.
	exec(t, pool, `SELECT tidemark.append('late', '[{"type": "noted"}]');
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at,
			fingerprint, first_failed_at) VALUES ('late', 'p', 'g', 1, 'dead', 'infinity', 'f', now());
		UPDATE tidemark.failed SET next_seq = 2 WHERE campaign_id = 'c050'`)
	r := runner(t, pool, nil)
	for n := 0; ; n++ {
		worked, err := r.Step(t.Context())
		if err != nil || n > 10 {
			t.Fatalf("after %d batches: %v", n, err)
		}
		if !worked {
			break
		}
		if left := scan[int](t, pool, `SELECT count(*) FROM tidemark.operation_items
			WHERE outcome IS NULL`); n == 0 && left != 61 {
			t.Errorf("after the first batch %d items are left, want 61", left)
		}
	}
	got, err := acts.Operation(t.Context(), op.ID)
	if err != nil || got.State != "done" || got.Total != 101 || got.Done != 100 || got.Skipped != 1 {
		t.Fatalf("in the end it is %+v, %v", got, err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'resolved' AND actor = 'ada'
		AND reason LIKE 'a test (operation %)'`); n != 100 {
		t.Errorf("%d pairs are in the log as resolved", n)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE status = 'dead'`); n != 3 {
		t.Errorf("%d pairs are dead, want the two late ones and the one that moved", n)
	}
	items, err := acts.Items(t.Context(), op.ID, 48, 3)
	if err != nil || len(items) != 3 || items[1].CampaignID != "c050" || items[1].Outcome != "skipped" ||
		items[2].Outcome != "done" {
		t.Errorf("items %+v, %v", items, err)
	}
}

// Rows that were restored or written by hand can lack first_failed_at.
func TestABulkActHasWhatItCountedThoughNothingSaysSinceWhen(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 3)
	exec(t, pool, `UPDATE tidemark.failed SET first_failed_at = NULL WHERE campaign_id = 'c002'`)
	preview, err := acts.PreviewBulk(t.Context(), admin.Bulk{
		Kind: admin.OpResolve, Failed: &admin.FailedFilter{}, Limit: 3,
	})
	if err != nil || preview.Count != 3 {
		t.Fatalf("the preview is %+v, %v, want 3", preview, err)
	}
	outcome, err := startBulk(t, acts, as(auth.Admin), preview.Bulk, preview.Confirm)
	if op := operation(t, outcome, err); op.Total != 3 {
		t.Errorf("it is about %d, of 3 that were counted", op.Total)
	}
}

func TestABulkActHasALimit(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 5)
	exec(t, pool, `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status,
		error_message, first_failed_at)
		SELECT 't', 's', campaign_id, 1, true, 1, CASE campaign_id WHEN 'c003' THEN 'draining'
			ELSE 'parked' END, 'no', now() + make_interval(secs => substr(campaign_id, 2)::int)
		FROM tidemark.journal WHERE campaign_id > 'c001'`)
	for _, c := range []struct {
		bulk  admin.Bulk
		count int64
		more  bool
		about string
	}{
		{admin.Bulk{Kind: admin.OpRequeue, Failed: &admin.FailedFilter{}, Limit: 3}, 3, true, "c001 c002 c003"},
		{admin.Bulk{Kind: admin.OpRequeue, Failed: &admin.FailedFilter{}, Limit: 5}, 5, false, "c001 c002 c003 c004 c005"},
		// parked events that drain are not included
		{admin.Bulk{Kind: admin.OpRetryParked, Parked: &admin.ParkedFilter{}, Limit: 3}, 3, true, "c001 c002 c004"},
		{admin.Bulk{Kind: admin.OpRetryParked, Parked: &admin.ParkedFilter{}, Limit: 4}, 4, false, "c001 c002 c004 c005"},
	} {
		preview, err := acts.PreviewBulk(t.Context(), c.bulk)
		if err != nil || preview.Count != c.count || preview.More != c.more || len(preview.Sample) > int(c.count) {
			t.Errorf("preview %+v, %v", preview, err)
			continue
		}
		outcome, err := startBulk(t, acts, as(auth.Operator), c.bulk, preview.Confirm)
		op := operation(t, outcome, err)
		items, err := acts.Items(t.Context(), op.ID, 0, 0)
		var about []string
		for _, i := range items {
			about = append(about, i.CampaignID)
		}
		if got := strings.Join(about, " "); err != nil || got != c.about || op.Total != c.count {
			t.Errorf("%s of %d is about %s, %v, want %s", op.Kind, op.Total, got, err, c.about)
		}
	}
}

func TestABulkActCanBeAborted(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 50)
	outcome, err := startBulk(t, acts, as(auth.Operator),
		admin.Bulk{Kind: admin.OpRequeue, Failed: &admin.FailedFilter{}}, "requeue 50")
	op := operation(t, outcome, err)
	r := runner(t, pool, nil)
	if worked, err := r.Step(t.Context()); !worked || err != nil {
		t.Fatal(worked, err)
	}
	if _, err := acting.Do(t.Context(), acts, as(auth.Operator), "abortOperation", fmt.Sprint("id=", op.ID)); err != nil {
		t.Fatal(err)
	}
	if worked, err := r.Step(t.Context()); worked || err != nil {
		t.Errorf("after it was aborted: %t, %v", worked, err)
	}
	got, err := acts.Operation(t.Context(), op.ID)
	if err != nil || got.State != "aborted" || got.Done != 40 || got.EndedBy != "ada" {
		t.Errorf("aborted it is %+v, %v", got, err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE status = 'failed'`); n != 40 {
		t.Errorf("%d pairs were requeued", n)
	}
	if _, err := acting.Do(t.Context(), acts, as(auth.Operator), "abortOperation", fmt.Sprint("id=", op.ID)); !errors.Is(err, admin.ErrChanged) {
		t.Errorf("aborted again: %v", err)
	}
}

func TestOperationsOfOtherKinds(t *testing.T) {
	t.Parallel()
	for _, session := range pgtest.Sessions() {
		t.Run(session.Name, func(t *testing.T) {
			t.Parallel()
			otherKinds(t, session.Open(t, pgtest.URL(t)))
		})
	}
}

func otherKinds(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, acts := databaseOn(t, pool, 3)
	execAll(t, pool, `DELETE FROM tidemark.failed; DELETE FROM tidemark.outbox; UPDATE tidemark.leases
		SET checkpoint = 0 WHERE campaign_id = 'c002'`)
	var ids []int64
	add := func(o *admin.Outcome, err error) { ids = append(ids, operation(t, o, err).ID) }
	add(acting.Do(t.Context(), acts, typing("g"), "repairGaps", "group=g"))
	add(acting.Do(t.Context(), acts, as(auth.Operator), "replayGroup", "group=g", "projection=p"))
	add(startBulk(t, acts, as(auth.Admin),
		admin.Bulk{Kind: admin.OpResolveParked, Parked: &admin.ParkedFilter{Publisher: "s"}, AsOf: new(time.Now())},
		"resolve parked 1"))
	add(acting.Do(t.Context(), acts, as(auth.Operator), "replayGroup", "group=g", "projection=p", "from=1"))
	exec(t, pool, `UPDATE tidemark.operations SET request = '{"group": "nowhere", "projection": "p"}'
		WHERE id = (SELECT max(id) FROM tidemark.operations)`)
	r := runner(t, pool, nil)
	for worked := true; worked; {
		var err error
		if worked, err = r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, id := range ids {
		o, err := acts.Operation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %d", o.Kind, o.State, o.Done))
	}
	if want := "repair_gaps done 1, replay done 2, resolve_parked done 1, replay failed 0"; strings.Join(got,
		", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
}

func TestAnOperationTellsWhatBecameOfWhatItHadTriedAgain(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 4)
	exec(t, pool, `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status,
		error_message, first_failed_at)
		SELECT 't', 's', campaign_id, 1, true, 1, 'parked', 'no', now() FROM tidemark.journal ON CONFLICT DO NOTHING`)
	r := runner(t, pool, nil)
	for _, c := range []struct {
		bulk admin.Bulk
		then string // one each: succeeds, fails again and retries, fails for good
	}{
		{admin.Bulk{Kind: admin.OpRequeue, Failed: &admin.FailedFilter{}}, `DELETE FROM tidemark.failed
			WHERE campaign_id = 'c001';
			UPDATE tidemark.failed SET attempt_count = 1 WHERE campaign_id = 'c002';
			UPDATE tidemark.failed SET status = 'dead', next_attempt_at = 'infinity' WHERE campaign_id = 'c003'`},
		{admin.Bulk{Kind: admin.OpRetryParked, Parked: &admin.ParkedFilter{}}, `UPDATE tidemark.parked
			SET status = 'draining' WHERE campaign_id = 'c001';
			UPDATE tidemark.parked SET attempt_count = 1 WHERE campaign_id = 'c002';
			UPDATE tidemark.parked SET status = 'parked', next_attempt_at = 'infinity' WHERE campaign_id = 'c003'`},
	} {
		preview, err := acts.PreviewBulk(t.Context(), c.bulk)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := startBulk(t, acts, as(auth.Operator), c.bulk, preview.Confirm)
		op := operation(t, outcome, err)
		expect := func(want admin.Since) {
			t.Helper()
			got, err := acts.Operation(t.Context(), op.ID)
			if err != nil || got.Since == nil || *got.Since != want {
				t.Errorf("%s: since then %+v, %v, want %+v", op.Kind, got.Since, err, want)
			}
			all, err := acts.Operations(t.Context(), admin.OperationFilter{Kind: op.Kind, Limit: 1})
			if err != nil || got.State == "done" && (all[0].Since == nil || *all[0].Since != want) {
				t.Errorf("%s: in the list, since then %+v, %v, want %+v", op.Kind, all[0].Since, err, want)
			}
		}
		expect(admin.Since{})
		for worked := true; worked; {
			if worked, err = r.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		expect(admin.Since{LookedAt: preview.Count, Waiting: preview.Count})
		exec(t, pool, c.then)
		expect(admin.Since{LookedAt: preview.Count, Passed: 1, FailedAgain: 2, Waiting: preview.Count - 3})
	}
}
