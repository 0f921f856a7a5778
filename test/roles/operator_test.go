package roles_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/acting"
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
	_, err := acting.Do(t.Context(), admin.On(operator), confirmed(projection), "rollbackProjection", "projection="+projection)
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

const brokenKey = "01a21831-0aaf-7001-9512-0e2cf06179e0"

// behind creates data for operators to act on, besides the projection counted, which is rolled
// back.
const behind = `
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
		next_attempt_at, error_message, fingerprint, first_failed_at, last_failed_at)
		VALUES ('c', 'counted', 'default', 2, 'dead', 8, 'infinity', 'no', 'f', now(), now()),
			('d', 'counted', 'default', 2, 'dead', 8, 'infinity', 'no', 'f', now(), now());
	INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message,
		first_failed_at)
		VALUES ('all', 'it', 'c', 1, true, 1, 'parked', 'no', now()), ('all', 'it', 'd', 1, true, 1, 'parked', 'no', now());
	INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
		VALUES ('w', 'default', 'h', 1, now(), now(), 0, 0);
	SELECT tidemark.append_at('c', now() + interval '1 h', '[{"type": "noted"}]');
	INSERT INTO tidemark.erasures (request, campaign_id, actor, reason) VALUES (sha256(''), 'gone', 'anna', 'it was killed');
	INSERT INTO tidemark.consumer_groups (name, state) VALUES ('spare', 'ready');
	INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
		VALUES ('` + brokenKey + `', sha256('eve'), sha256('x'), 'a')`

// everyAct performs every act of operators and calls done after each.
func everyAct(t *testing.T, operator, applies *pgxpool.Pool, done func(what string)) {
	t.Helper()
	to := publisher.Publisher{Name: "it", Sink: &memory.Sink{}, Topics: []string{"all"}}
	code := projecting(t, projector.Config{
		Pool: operator, Projections: projections(t, 1), GapRate: -1,
		OwnTablesOnly: true,
	})
	store, err := archive.NewFolder(t.TempDir())
	must(t, err)
	a, err := admin.New(admin.Config{
		Pool: operator, Archive: store, Projector: code, Projections: []string{"counted"},
		Topics: []publisher.Topic{{Name: "all"}}, Publishers: []publisher.Publisher{to}, Catalogue: acting.Sealed(),
	})
	must(t, err)
	ctx := t.Context()
	for _, projection := range []string{"counted", "heroes", "hashed"} {
		_, err := code.Verify(ctx, lookback.VerifyRequest{Projection: projection, All: true})
		var foreign *lookback.OwnerError
		if !errors.As(err, &foreign) {
			t.Errorf("verify of %s by the operator: %v", projection, err)
		}
		done("verify of " + projection + " by the operator")
	}
	for what, look := range map[string]func() error{
		"as-of": func() error { _, err := code.AsOf(ctx, "heroes", "c", 1); return err },
		"diff":  func() error { _, err := code.Diff(ctx, "heroes", "c", 1, 2); return err },
		"why": func() error {
			_, err := code.Why(ctx, lookback.WhyRequest{Projection: "heroes", CampaignID: "c", Key: []string{"ann"}})
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
		kind                  admin.Kind
		name, confirm, params string
	}{
		{admin.ActRequeue, "requeueFailed", "", "projection=counted campaign=c"},
		{admin.ActRequeue, "requeueEvent", "", "group=default campaign=c seq=2"},
		{admin.ActResolve, "resolveFailed", "", "projection=counted campaign=c seq=2"},
		{admin.ActUnresolve, "unresolveFailed", "", "projection=counted campaign=c seq=2"},
		{admin.ActPause, "pauseCampaign", "", "group=default campaign=c for=1h"},
		{admin.ActResume, "resumeCampaign", "", "group=default campaign=c"},
		{admin.ActReplay, "replayCampaign", "", "group=default projection=counted campaign=c"},
		{admin.ActRepairGaps, "repairGap", "", "group=default campaign=c"},
		{admin.ActStartRebuild, "startRebuild", "", "projection=counted"},
		{admin.ActPauseRebuild, "pauseRebuild", "", "projection=counted"},
		{admin.ActResumeRebuild, "resumeRebuild", "", "projection=counted"},
		{admin.ActSwapRebuild, "swapRebuild", "", "projection=counted"},
		{admin.ActAbortRebuild, "abortRebuild", "counted", "projection=counted"},
		{admin.ActPausePublisher, "pausePublisher", "", "topic=all publisher=it for=1h"},
		{admin.ActResumePublisher, "resumePublisher", "", "topic=all publisher=it"},
		{admin.ActRetryParked, "retryParked", "", "topic=all publisher=it campaign=c seq=1"},
		{admin.ActResolveParked, "resolveParked", "1", "topic=all publisher=it campaign=c seq=1"},
		{admin.ActRepublish, "republish", "it", "topic=all publisher=it campaign=c from=1"},
		{admin.ActResetPublisher, "resetPublisher", "it", "topic=all publisher=it position=0"},
		{admin.ActDrain, "drainWorker", "w", "owner=w"},
		{admin.ActUndrain, "undrainWorker", "", "owner=w"},
		{admin.ActStartOperation, "verifyProjection", "", "projection=counted"},
		{admin.ActAbortOperation, "abortOperation", "", ""},
		{admin.ActReschedule, "reschedule", "", "id=1 due=2999-01-01T00:00:00Z"},
		{admin.ActCancelScheduled, "cancelScheduled", "1", "id=1"},
		{admin.ActAbandonErasure, "abandonErasure", "", ""},
		{admin.ActArchive, "archiveCampaign", "", "campaign=c"},
		{admin.ActRestore, "restoreCampaign", "", "campaign=c"},
		{admin.ActErase, "eraseCampaign", "c", "campaign=c"},
		{admin.ActTrustKey, "trustWrappingKey", "a", "name=a"},
		{admin.ActRotateKeys, "rotateKeys", "", ""},
		{admin.ActDeleteKey, "deleteKey", brokenKey, "id=" + brokenKey},
		{admin.ActRepairCopy, "repairCopy", "", ""},
		{admin.ActCreateToken, "createToken", "", "name=eve expires=1h"},
		{admin.ActRevokeToken, "revokeToken", "", "name=eve"},
		{admin.ActRemoveGroup, "removeGroup", "spare", "group=spare"},
		{admin.ActRemove, "removeProjection", "counted", "projection=counted tables=true"},
	} {
		if act.kind == admin.ActAbortOperation {
			all, err := a.Operations(ctx, admin.OperationFilter{State: "running"})
			must(t, err)
			act.params = fmt.Sprint("id=", all[0].ID)
		}
		if act.kind == admin.ActAbandonErasure {
			must(t, operator.QueryRow(ctx, "SELECT id::text FROM tidemark.erasures WHERE ended_at IS NULL").Scan(&act.confirm))
			act.params = "erasure=" + act.confirm
		}
		if _, err := acting.Do(ctx, a, confirmed(act.confirm), act.name, strings.Fields(act.params)...); err != nil {
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
