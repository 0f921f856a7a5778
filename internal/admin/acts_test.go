package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// database returns a database with group g and its projection p, and campaigns c001 to cNNN with
// one event each, at which p is dead. It also has a rebuild of p, a publication t/s and a parked
// event of c001.
func database(t *testing.T, campaigns int) (*pgxpool.Pool, *admin.Acts) {
	t.Helper()
	return databaseOn(t, pgtest.New(t), campaigns)
}

func databaseOn(t *testing.T, pool *pgxpool.Pool, campaigns int) (*pgxpool.Pool, *admin.Acts) {
	t.Helper()
	// Some modes of a pool cannot send several commands in one statement.
	execAll(t, pool, fmt.Sprintf(`INSERT INTO tidemark.consumer_groups (name) VALUES ('g');
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
			VALUES ('p', 'g', 1, 'public', '{p}', 'active');
		CREATE TABLE public.p (campaign_id text PRIMARY KEY, n int);
		SELECT tidemark.append(format('c%%s', lpad(i::text, 3, '0')), '[{"type": "noted"}]') FROM generate_series(1, %[1]d) i;
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
			SELECT 'g', campaign_id, '', 1, '-infinity', 1 FROM tidemark.journal;
		INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
			next_attempt_at, error_message, fingerprint, first_failed_at, last_failed_at)
			SELECT campaign_id, 'p', 'g', 1, 'dead', 8, 'infinity', 'no', 'f', now(), now() FROM tidemark.journal;
		INSERT INTO tidemark.publications (topic, publisher, position) VALUES ('t', 's', 1);
		INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message,
			first_failed_at) VALUES ('t', 's', 'c001', 1, true, 1, 'parked', 'no', now());
		INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
			VALUES ('w', 'g', 'h', 1, now(), now(), 0, 0)`, campaigns))
	acts, err := admin.New(admin.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return pool, acts
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func execAll(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

func scan[T any](t *testing.T, pool *pgxpool.Pool, sql string) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func as(role auth.Role) admin.Request {
	return admin.Request{Who: auth.Identity{Name: "ada", Role: role}, Reason: "a test"}
}

// typing returns the request of an operator who has typed a word.
func typing(word string) admin.Request {
	r := as(auth.Operator)
	r.Confirm = word
	return r
}

// calls returns all acts that a single call completes, on the rows of database. Each act makes
// sense after the ones before it.
func calls(a *admin.Acts) []struct {
	kind admin.Kind
	do   func(context.Context, admin.Request) (*admin.Outcome, error)
} {
	type call = struct {
		kind admin.Kind
		do   func(context.Context, admin.Request) (*admin.Outcome, error)
	}
	key, pair := failed.Key{Projection: "p", CampaignID: "c001"}, publications.Key{Topic: "t", Publisher: "s"}
	target := pause.Target{Group: "g", CampaignID: "c003"}
	var options rebuild.Options
	back := int64(0)
	return []call{
		{admin.ActRequeue, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Failures().Requeue(ctx, r, key)
		}},
		{admin.ActRequeue, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Failures().RequeueEvent(ctx, r, "g", "c001", 1)
		}},
		{admin.ActResolve, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Failures().Resolve(ctx, r, key, 1)
		}},
		{admin.ActUnresolve, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Failures().Unresolve(ctx, r, key, 1)
		}},
		{admin.ActPause, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Pause(ctx, r, target, time.Hour)
		}},
		{admin.ActResume, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Resume(ctx, r, target)
		}},
		{admin.ActReplay, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.ReplayCampaigns(ctx, r, failed.ReplayRequest{
				Group: "g", Projection: "p", Campaigns: []string{"c002"},
				From: 1,
			})
		}},
		{admin.ActRepairGaps, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.RepairGap(ctx, r, "g", "c002")
		}},
		{admin.ActStartRebuild, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Projections().StartRebuild(ctx, r, "p", options)
		}},
		{admin.ActPauseRebuild, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Projections().PauseRebuild(ctx, r, "p", 0)
		}},
		{admin.ActResumeRebuild, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Projections().ResumeRebuild(ctx, r, "p")
		}},
		{admin.ActSwapRebuild, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Projections().SwapRebuild(ctx, r, "p", options)
		}},
		{admin.ActAbortRebuild, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Projections().AbortRebuild(ctx, r, "p")
		}},
		{admin.ActPausePublisher, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Publishers().Pause(ctx, r, pair, time.Hour)
		}},
		{admin.ActResumePublisher, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Publishers().Resume(ctx, r, pair)
		}},
		{admin.ActRetryParked, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Publishers().RetryParked(ctx, r, pair, "c001", 1)
		}},
		{admin.ActResolveParked, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Publishers().ResolveParked(ctx, r, pair, "c001", 1)
		}},
		{admin.ActResetPublisher, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Publishers().Reset(ctx, r, pair, publications.ResetTo{Position: &back}, false)
		}},
		{admin.ActDrain, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.DrainWorker(ctx, r, "w")
		}},
		{admin.ActUndrain, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.UndrainWorker(ctx, r, "w")
		}},
		{admin.ActStartOperation, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.StartRepair(ctx, r, admin.GapRepair{Group: "g"})
		}},
		{admin.ActAbortOperation, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Abort(ctx, r, 1)
		}},
		{admin.ActRemove, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.Projections().Remove(ctx, r, "p", true)
		}},
		{admin.ActRemoveGroup, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.RemoveGroup(ctx, r, "g")
		}},
		{admin.ActCreateToken, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.CreateToken(ctx, r, "eve", auth.Viewer, time.Hour)
		}},
		{admin.ActRevokeToken, func(ctx context.Context, r admin.Request) (*admin.Outcome, error) {
			return a.RevokeToken(ctx, r, "eve")
		}},
	}
}

// words returns what a person types to confirm acts of these kinds, on the rows of database.
func words() map[admin.Kind]string {
	return map[admin.Kind]string{
		admin.ActAbortRebuild: "p", admin.ActResolveParked: "1", admin.ActResetPublisher: "s", admin.ActDrain: "w", admin.ActStartOperation: "g",
		admin.ActRollback: "p", admin.ActRemove: "p", admin.ActRemoveGroup: "g",
	}
}

// everything is a hash of all rows that acts could write.
const everything = `SELECT md5(concat((SELECT string_agg(d::text, ';' ORDER BY campaign_id, projection)
	FROM tidemark.deferred d), (SELECT string_agg(p::text, ';') FROM tidemark.pauses p),
	(SELECT string_agg(p::text, ';') FROM tidemark.publications p),
		(SELECT string_agg(p::text, ';') FROM tidemark.parked p),
		(SELECT string_agg(p::text, ';' ORDER BY name) FROM tidemark.projections p),
	(SELECT string_agg(o::text, ';') FROM tidemark.operations o), (SELECT count(*) FROM tidemark.failure_log),
		(SELECT count(*) FROM tidemark.operator_log),
	(SELECT string_agg(w::text, ';') FROM tidemark.workers w)))`

func TestEveryActIsDoneOnceByWhoeverMayAndWrittenDown(t *testing.T) {
	t.Parallel()
	for _, session := range pgtest.Sessions() {
		t.Run(session.Name, func(t *testing.T) {
			t.Parallel()
			everyAct(t, session.Open(t, pgtest.URL(t)))
		})
	}
}

func everyAct(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, acts := databaseOn(t, pool, 3)
	// These have tests of their own. A worker records the last one.
	seen := map[admin.Kind]bool{admin.ActRollback: true, admin.ActTestSend: true, admin.ActRepublish: true}
	for i, call := range calls(acts) {
		seen[call.kind] = true
		before := scan[string](t, pool, everything)
		low := as(call.kind.Role() - 1)
		low.Key = "low"
		if _, err := call.do(t.Context(), low); !errors.Is(err, admin.ErrForbidden) {
			t.Fatalf("%s by %s: %v", call.kind, low.Who.Role, err)
		}
		if now := scan[string](t, pool, everything); now != before {
			t.Fatalf("%s that was forbidden changed something", call.kind)
		}
		request := as(call.kind.Role())
		request.Key = fmt.Sprint("key ", i)
		if word := words()[call.kind]; word != "" {
			for _, typed := range []string{"", "yes"} {
				request.Confirm = typed
				if _, err := call.do(t.Context(), request); !errors.Is(err, admin.ErrDeclined) ||
					!strings.Contains(err.Error(), word) {
					t.Errorf("%s after %q was typed: %v, want that it asks for %q", call.kind, typed, err, word)
				}
			}
			if now := scan[string](t, pool, everything); now != before {
				t.Fatalf("%s that was not confirmed changed something", call.kind)
			}
			request.Confirm = word
		}
		logged := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`)
		if _, err := call.do(t.Context(), request); err != nil {
			t.Fatalf("%s: %v", call.kind, err)
		}
		now := scan[string](t, pool, everything)
		if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`); n != logged+1 {
			t.Errorf("%s wrote %d rows of the operators' log", call.kind, n-logged)
		}
		if got := scan[string](t, pool, `SELECT concat(act, ' ', actor, ' ', reason) FROM tidemark.operator_log
			ORDER BY id DESC LIMIT 1`); got != string(call.kind)+" ada a test" {
			t.Errorf("%s is in the operators' log as %q", call.kind, got)
		}
		again, err := call.do(t.Context(), request)
		if err != nil || !again.Repeated {
			t.Errorf("%s again with its key: %+v, %v", call.kind, again, err)
		}
		if after := scan[string](t, pool, everything); after != now {
			t.Errorf("%s again with its key changed something", call.kind)
		}
		request.Reason = "another"
		if _, err := call.do(t.Context(), request); !errors.Is(err, admin.ErrKeyReused) {
			t.Errorf("%s for another reason with its key: %v", call.kind, err)
		}
	}
	for _, kind := range admin.Kinds() {
		if !seen[kind] {
			t.Errorf("%s has no test", kind)
		}
	}
}

func TestActsThatFailLeaveNothing(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 1)
	before := scan[string](t, pool, everything)
	r := as(auth.Admin)
	r.Key, r.Confirm = "k", "p"
	_, err := acts.Failures().Requeue(t.Context(), r, failed.Key{Projection: "p", CampaignID: "nowhere"})
	if !errors.Is(err, failed.ErrNotFound) {
		t.Errorf("a pair that is not there: %v", err)
	}
	if _, err := acts.Projections().AbortRebuild(t.Context(), r, "p"); !errors.Is(err, rebuild.ErrNoRebuild) {
		t.Errorf("a rebuild that is not there: %v", err)
	}
	if _, err := acts.Projections().Rollback(t.Context(), r, "p", rebuild.RollbackOptions{}); !errors.Is(err,
		rebuild.ErrNoPrevious) {
		t.Errorf("tables that are not there: %v", err)
	}
	if _, err := acts.Publishers().TestSend(t.Context(), r, publications.Key{Topic: "t", Publisher: "s"}, "", 0); !errors.Is(err,
		admin.ErrNotHere) {
		t.Errorf("a publisher that is not here: %v", err)
	}
	named := func(name string) admin.Request {
		named := r
		named.Key, named.Confirm = "", name
		return named
	}
	if _, err := acts.Projections().Remove(t.Context(), named("q"), "q", true); !errors.Is(err, rebuild.ErrUnknownProjection) {
		t.Errorf("a projection that is not there: %v", err)
	}
	if _, err := acts.Projections().Remove(t.Context(), named("yes"), "p", true); !errors.Is(err, admin.ErrDeclined) {
		t.Errorf("a removal that was not confirmed: %v", err)
	}
	if _, err := acts.RemoveGroup(t.Context(), named("h"), "h"); !errors.Is(err, outbox.ErrNotRegistered) {
		t.Errorf("a group that is not there: %v", err)
	}
	if _, err := acts.RemoveGroup(t.Context(), named("g"), "g"); !errors.Is(err, outbox.ErrInUse) {
		t.Errorf("a group that is in use: %v", err)
	}
	none := admin.Bulk{Kind: admin.OpRequeue, Failed: &admin.FailedFilter{Class: "infrastructure"}}
	if _, err := acts.StartBulk(t.Context(), r, none, "requeue 0"); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("pairs that are not there: %v", err)
	}
	r.Reason = ""
	if _, err := acts.Failures().Resolve(t.Context(), r, failed.Key{Projection: "p", CampaignID: "c001"}, 1); !errors.Is(err,
		admin.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if now := scan[string](t, pool, everything); now != before ||
		scan[int](t, pool, `SELECT count(*) FROM tidemark.act_keys`) > 0 {
		t.Error("acts that failed left something")
	}
}

func TestOneKeyIsOneActHoweverManyComeAtOnce(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 1)
	r := as(auth.Operator)
	r.Key = "k"
	var wg sync.WaitGroup
	results := make(chan string, 8)
	for range cap(results) {
		wg.Go(func() {
			o, err := acts.Pause(t.Context(), r, pause.Target{Group: "g"}, time.Hour)
			if err != nil {
				results <- err.Error()
				return
			}
			results <- fmt.Sprint(o.Repeated)
		})
	}
	wg.Wait()
	close(results)
	count := map[string]int{}
	for text := range results {
		count[text]++
	}
	if count["false"] != 1 || count["true"] != 7 || scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`) != 1 {
		t.Errorf("came of it: %v", count)
	}
}

func TestATokenIsShownOnceAndNeverKept(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 1)
	r := as(auth.Admin)
	r.Key = "k"
	var tokens []string
	for range 2 {
		o, err := acts.CreateToken(t.Context(), r, "eve", auth.Operator, 0)
		if err != nil {
			t.Fatal(err)
		}
		var made admin.NewToken
		if err := json.Unmarshal(o.Detail, &made); err != nil || made.Name != "eve" || made.Role != "operator" {
			t.Fatalf("%s, %v", o.Detail, err)
		}
		tokens = append(tokens, made.Token)
	}
	if !strings.HasPrefix(tokens[0], "tmk_") || tokens[1] != "" {
		t.Errorf("the tokens are %q", tokens)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log l, tidemark.act_keys k
		WHERE l.detail::text LIKE '%tmk_%' OR k.result::text LIKE '%tmk_%'`); n > 0 {
		t.Error("the token itself is kept")
	}
	if got := scan[string](t, pool, `SELECT concat_ws(' ', act, actor, detail -> 'request' ->> 'name')
		FROM tidemark.operator_log`); got != "token_created ada eve" {
		t.Errorf("the log has %q", got)
	}
}
