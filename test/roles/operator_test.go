package roles_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
)

// confirmed is the request of an operator who has typed a word to confirm.
func confirmed(word string) admin.Request {
	r := admin.By("anna", "a test")
	r.Confirm = word
	return r
}

// rollBack lets an operator request a rollback, and a worker perform it.
func rollBack(t *testing.T, operator, worker *pgxpool.Pool, projection string) {
	t.Helper()
	_, err := admin.On(operator).Projections().Rollback(t.Context(), confirmed(projection), projection, rebuild.RollbackOptions{})
	must(t, err)
	operations(t, operator, worker)
}

// operations lets a worker perform the operations that operators have started.
func operations(t *testing.T, operator, worker *pgxpool.Pool) {
	t.Helper()
	runner, err := admin.NewRunner(admin.RunnerConfig{Pool: worker, Owner: "the test's worker"})
	must(t, err)
	for worked := true; worked; {
		worked, err = runner.Step(t.Context())
		must(t, err)
	}
	left, err := admin.On(operator).Operations(t.Context(), admin.OperationFilter{})
	must(t, err)
	for _, o := range left {
		if o.State != "done" {
			t.Errorf("operation %d, %s, is %s: %s", o.ID, o.Kind, o.State, o.Error)
		}
	}
}

// behind creates data for operators to act on, besides the projection counted, which is rolled
// back.
const behind = `
	INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
		next_attempt_at, error_message, fingerprint, first_failed_at, last_failed_at)
		VALUES ('c', 'counted', 'default', 2, 'dead', 8, 'infinity', 'no', 'f', now(), now()),
			('d', 'counted', 'default', 2, 'dead', 8, 'infinity', 'no', 'f', now(), now());
	INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message,
		first_failed_at)
		VALUES ('all', 'it', 'c', 1, true, 1, 'parked', 'no', now()), ('all', 'it', 'd', 1, true, 1, 'parked', 'no', now());
	INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
		VALUES ('w', 'default', 'h', 1, now(), now(), 0, 0);
	INSERT INTO tidemark.consumer_groups (name, state) VALUES ('spare', 'ready')`

// everyAct performs every act of operators and calls done after each.
func everyAct(t *testing.T, operator, applies *pgxpool.Pool, done func(what string)) {
	t.Helper()
	to := publisher.Publisher{Name: "it", Sink: &memory.Sink{}, Topics: []string{"all"}}
	code := projecting(t, projector.Config{
		Pool: operator, Projections: projections(t, 1), GapRate: -1,
		OwnTablesOnly: true,
	})
	a, err := admin.New(admin.Config{
		Pool: operator, Projector: code, Projections: []string{"counted"}, Topics: []publisher.Topic{{Name: "all"}},
		Publishers: []publisher.Publisher{to},
	})
	must(t, err)
	type outcome func() (*admin.Outcome, error)
	ctx, back := t.Context(), int64(0)
	key, pair, target := failed.Key{Projection: "counted", CampaignID: "c"},
		publications.Key{Topic: "all", Publisher: "it"}, pause.Target{Group: "default", CampaignID: "c"}
	for what, look := range map[string]func() error{
		"verify": func() error {
			_, err := code.Verify(ctx, projector.VerifyRequest{Projection: "counted", All: true})
			return err
		},
		"verify of SQL": func() error {
			report, err := code.Verify(ctx, projector.VerifyRequest{Projection: "heroes", All: true})
			if err == nil && (report.Campaigns == 0 || report.Differences() > 0) {
				t.Errorf("verify: %+v", report)
			}
			return err
		},
		"verify of a function's caller": func() error {
			_, err := code.Verify(ctx, projector.VerifyRequest{Projection: "hashed", All: true})
			return err
		},
		"as-of": func() error { _, err := code.AsOf(ctx, "heroes", "c", 1); return err },
		"diff":  func() error { _, err := code.Diff(ctx, "heroes", "c", 1, 2); return err },
		"why": func() error {
			_, err := code.Why(ctx, projector.WhyRequest{Projection: "heroes", CampaignID: "c", Key: []string{"ann"}})
			return err
		},
	} {
		if err := look(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		done(what + " by the operator")
	}
	seen := map[admin.Kind]bool{admin.ActRollback: true}
	for _, act := range []struct {
		kind admin.Kind
		do   outcome
	}{
		{admin.ActRequeue, func() (*admin.Outcome, error) { return a.Failures().Requeue(ctx, confirmed(""), key) }},
		{admin.ActRequeue, func() (*admin.Outcome, error) {
			return a.Failures().RequeueEvent(ctx, confirmed(""), "default", "c", 2)
		}},
		{admin.ActResolve, func() (*admin.Outcome, error) { return a.Failures().Resolve(ctx, confirmed("2"), key, 2) }},
		{admin.ActUnresolve, func() (*admin.Outcome, error) { return a.Failures().Unresolve(ctx, confirmed(""), key, 2) }},
		{admin.ActPause, func() (*admin.Outcome, error) { return a.Pause(ctx, confirmed(""), target, time.Hour) }},
		{admin.ActResume, func() (*admin.Outcome, error) { return a.Resume(ctx, confirmed(""), target) }},
		{admin.ActReplay, func() (*admin.Outcome, error) {
			return a.ReplayCampaigns(ctx, confirmed(""), failed.ReplayRequest{
				Group: "default", Projection: "counted",
				Campaigns: []string{"c"},
			})
		}},
		{admin.ActRepairGaps, func() (*admin.Outcome, error) { return a.RepairGap(ctx, confirmed(""), "default", "c") }},
		{admin.ActStartRebuild, func() (*admin.Outcome, error) {
			return a.Projections().StartRebuild(ctx, confirmed(""), "counted", rebuild.Options{})
		}},
		{admin.ActPauseRebuild, func() (*admin.Outcome, error) {
			return a.Projections().PauseRebuild(ctx, confirmed(""), "counted", 0)
		}},
		{admin.ActResumeRebuild, func() (*admin.Outcome, error) {
			return a.Projections().ResumeRebuild(ctx, confirmed(""), "counted")
		}},
		{admin.ActSwapRebuild, func() (*admin.Outcome, error) {
			return a.Projections().SwapRebuild(ctx, confirmed(""), "counted", rebuild.Options{})
		}},
		{admin.ActAbortRebuild, func() (*admin.Outcome, error) {
			return a.Projections().AbortRebuild(ctx, confirmed("counted"), "counted")
		}},
		{admin.ActPausePublisher, func() (*admin.Outcome, error) {
			return a.Publishers().Pause(ctx, confirmed(""), pair, time.Hour)
		}},
		{admin.ActResumePublisher, func() (*admin.Outcome, error) { return a.Publishers().Resume(ctx, confirmed(""), pair) }},
		{admin.ActRetryParked, func() (*admin.Outcome, error) { return a.Publishers().RetryParked(ctx, confirmed(""), pair, "c", 1) }},
		{admin.ActResolveParked, func() (*admin.Outcome, error) {
			return a.Publishers().ResolveParked(ctx, confirmed("1"), pair, "c", 1)
		}},
		{admin.ActTestSend, func() (*admin.Outcome, error) { return a.Publishers().TestSend(ctx, confirmed(""), pair, "", 0) }},
		{admin.ActRepublish, func() (*admin.Outcome, error) {
			return a.Publishers().Republish(ctx, confirmed("it"), admin.Republication{
				Topic: "all", Publisher: "it", CampaignID: "c", From: 1,
			})
		}},
		{admin.ActResetPublisher, func() (*admin.Outcome, error) {
			return a.Publishers().Reset(ctx, confirmed("it"), pair, publications.ResetTo{Position: &back}, false)
		}},
		{admin.ActDrain, func() (*admin.Outcome, error) { return a.DrainWorker(ctx, confirmed("w"), "w") }},
		{admin.ActUndrain, func() (*admin.Outcome, error) { return a.UndrainWorker(ctx, confirmed(""), "w") }},
		{admin.ActStartOperation, func() (*admin.Outcome, error) {
			return a.Projections().Verify(ctx, confirmed(""), admin.Verification{Projection: "counted"})
		}},
		{admin.ActAbortOperation, func() (*admin.Outcome, error) {
			all, err := a.Operations(ctx, admin.OperationFilter{State: "running"})
			must(t, err)
			return a.Abort(ctx, confirmed(""), all[0].ID)
		}},
		{admin.ActCreateToken, func() (*admin.Outcome, error) {
			return a.CreateToken(ctx, confirmed(""), "eve", auth.Viewer, time.Hour)
		}},
		{admin.ActRevokeToken, func() (*admin.Outcome, error) { return a.RevokeToken(ctx, confirmed(""), "eve") }},
		{admin.ActRemoveGroup, func() (*admin.Outcome, error) { return a.RemoveGroup(ctx, confirmed("spare"), "spare") }},
		{admin.ActRemove, func() (*admin.Outcome, error) {
			return a.Projections().Remove(ctx, confirmed("counted"), "counted", true)
		}},
	} {
		if _, err := act.do(); err != nil {
			t.Errorf("%s: %v", act.kind, err)
		}
		seen[act.kind] = true
		done(string(act.kind) + " by the operator")
		if act.kind == admin.ActPauseRebuild { // the abort later needs tables that a worker has created
			_, err := worker(t, applies, 1).Drain(ctx)
			must(t, err)
			var made bool
			must(t, operator.QueryRow(ctx,
				"SELECT EXISTS (SELECT FROM tidemark.projections WHERE name = 'counted~next' AND schema_name <> '')").Scan(&made))
			if !made {
				t.Error("no worker has begun the rebuild")
			}
		}
	}
	for _, kind := range admin.Kinds() {
		if !seen[kind] {
			t.Errorf("%s is not tried", kind)
		}
	}
}
