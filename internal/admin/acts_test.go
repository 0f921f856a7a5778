package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/test/support/acting"
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
		SELECT tidemark.append_at('c001', now() + interval '1 h', '[{"type": "noted"}]');
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
			SELECT 'g', campaign_id, '', 1, '-infinity', 1 FROM tidemark.journal;
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
			next_attempt_at, error_message, fingerprint, first_failed_at, last_failed_at)
			SELECT campaign_id, 'p', 'g', 1, 'dead', 8, 'infinity', 'no', 'f', now(), now() FROM tidemark.journal;
		INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('t', 's', 1);
		INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message,
			first_failed_at) VALUES ('t', 's', 'c001', 1, true, 1, 'parked', 'no', now());
		INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
			VALUES ('w', 'g', 'h', 1, now(), now(), 0, 0);
		INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
			VALUES ('01a21831-0aaf-7001-9512-0e2cf06179e0', sha256('eve'), sha256('x'), 'a')`, campaigns))
	store, err := archive.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	acts, err := admin.New(admin.Config{Pool: pool, Catalogue: acting.Sealed(), Archive: store})
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

// call is an act with its parameters.
type call struct {
	kind   admin.Kind
	name   string
	params string
}

func (c call) do(t *testing.T, acts *admin.Acts, by admin.Request) (*admin.Outcome, error) {
	t.Helper()
	return acting.Do(t.Context(), acts, by, c.name, strings.Fields(c.params)...)
}

// calls are all acts that one call does, on what database makes. They come in an order in which each makes sense.
func calls() []call {
	return []call{
		{admin.ActRequeue, "requeueFailed", "projection=p campaign=c001"},
		{admin.ActRequeue, "requeueEvent", "group=g campaign=c001 seq=1"},
		{admin.ActResolve, "resolveFailed", "projection=p campaign=c001 seq=1"},
		{admin.ActUnresolve, "unresolveFailed", "projection=p campaign=c001 seq=1"},
		{admin.ActPause, "pauseCampaign", "group=g campaign=c003 for=1h"},
		{admin.ActResume, "resumeCampaign", "group=g campaign=c003"},
		{admin.ActPause, "pauseProjection", "projection=p"},
		{admin.ActResume, "resumeProjection", "projection=p"},
		{admin.ActReplay, "replayCampaign", "group=g projection=p campaign=c002 from=1"},
		{admin.ActRepairGaps, "repairGap", "group=g campaign=c002"},
		{admin.ActStartRebuild, "startRebuild", "projection=p"},
		{admin.ActPauseRebuild, "pauseRebuild", "projection=p"},
		{admin.ActResumeRebuild, "resumeRebuild", "projection=p"},
		{admin.ActSwapRebuild, "swapRebuild", "projection=p"},
		{admin.ActAbortRebuild, "abortRebuild", "projection=p"},
		{admin.ActPausePublisher, "pausePublisher", "topic=t publisher=s for=1h"},
		{admin.ActResumePublisher, "resumePublisher", "topic=t publisher=s"},
		{admin.ActRetryParked, "retryParked", "topic=t publisher=s campaign=c001 seq=1"},
		{admin.ActResolveParked, "resolveParked", "topic=t publisher=s campaign=c001 seq=1"},
		{admin.ActResetPublisher, "resetPublisher", "topic=t publisher=s position=0"},
		{admin.ActDrain, "drainWorker", "owner=w"},
		{admin.ActUndrain, "undrainWorker", "owner=w"},
		{admin.ActStartOperation, "repairGaps", "group=g"},
		{admin.ActAbortOperation, "abortOperation", "id=1"},
		{admin.ActReschedule, "reschedule", "id=1 due=2999-01-01T00:00:00Z"},
		{admin.ActCancelScheduled, "cancelScheduled", "id=1"},
		{admin.ActAbandonErasure, "abandonErasure", "erasure=1"},
		{admin.ActArchive, "archiveCampaign", "campaign=c003"},
		{admin.ActRestore, "restoreCampaign", "campaign=c003"},
		{admin.ActErase, "eraseCampaign", "campaign=c003"},
		{admin.ActTrustKey, "trustWrappingKey", "name=a"}, // a key of that name does not open
		{admin.ActRotateKeys, "rotateKeys", ""},
		{admin.ActDeleteKey, "deleteKey", "id=01a21831-0aaf-7001-9512-0e2cf06179e0"},
		{admin.ActRepairCopy, "repairCopy", ""},
		{admin.ActRemove, "removeProjection", "projection=p tables=true"},
		{admin.ActRemoveGroup, "removeGroup", "group=g"},
		{admin.ActCreateToken, "createToken", "name=eve expires=1h"},
		{admin.ActRevokeToken, "revokeToken", "name=eve"},
	}
}

// admins are the acts that no operator may do.
func admins() []admin.Kind {
	return []admin.Kind{
		admin.ActResolve, admin.ActUnresolve, admin.ActResolveParked, admin.ActResetPublisher, admin.ActAbortRebuild,
		admin.ActSwapRebuild, admin.ActRollback, admin.ActDrain, admin.ActUndrain, admin.ActRemove, admin.ActRemoveGroup,
		admin.ActCreateToken, admin.ActRevokeToken, admin.ActCancelScheduled, admin.ActErase, admin.ActArchive, admin.ActRestore,
		admin.ActRepairCopy, admin.ActAbandonErasure, admin.ActDeleteKey, admin.ActReschedule,
		admin.ActTrustKey,
	}
}

// words returns what a person types to confirm acts of these kinds, on the rows of database.
func words() map[admin.Kind]string {
	return map[admin.Kind]string{
		admin.ActAbortRebuild: "p", admin.ActResolveParked: "1", admin.ActResetPublisher: "s", admin.ActDrain: "w", admin.ActStartOperation: "g",
		admin.ActCancelScheduled: "1", admin.ActErase: "c003", admin.ActAbandonErasure: "1",
		admin.ActDeleteKey: "01a21831-0aaf-7001-9512-0e2cf06179e0", admin.ActTrustKey: "a",
		admin.ActRollback: "p", admin.ActRemove: "p", admin.ActRemoveGroup: "g",
	}
}

// everything is a hash of all rows that acts could write.
const everything = `SELECT md5(concat((SELECT string_agg(d::text, ';' ORDER BY campaign_id, projection)
	FROM tidemark.failed d), (SELECT string_agg(p::text, ';') FROM tidemark.pauses p),
	(SELECT string_agg(p::text, ';') FROM tidemark.readers p),
		(SELECT string_agg(p::text, ';') FROM tidemark.parked p),
		(SELECT string_agg(p::text, ';' ORDER BY name) FROM tidemark.projections p),
	(SELECT string_agg(s::text, ';' ORDER BY id) FROM tidemark.scheduled s),
	(SELECT string_agg(o::text, ';') FROM tidemark.operations o), (SELECT count(*) FROM tidemark.failure_log),
		(SELECT count(*) FROM tidemark.operator_log),
	(SELECT string_agg(w::text, ';') FROM tidemark.workers w)))`

// acted counts the acts on record, without what functions of the database write beside them.
const (
	acted  = `SELECT count(*) FROM tidemark.operator_log WHERE ` + ofActs
	ofActs = `act <> ALL ('{events_archived,events_restored,erasure_begun,events_erased,keys_rewrapped,wrapping_key_recorded}')`
)

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
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.erasures (request, campaign_id, actor, reason)
		VALUES (sha256(''), 'gone', 'anna', 'it was killed')`); err != nil {
		t.Fatal(err)
	}
	// These have tests of their own. A worker records the last one.
	seen := map[admin.Kind]bool{admin.ActRollback: true, admin.ActRepublish: true}
	for i, call := range calls() {
		seen[call.kind] = true
		role := auth.Operator
		if slices.Contains(admins(), call.kind) {
			role = auth.Admin
		}
		before := scan[string](t, pool, everything)
		low := as(role - 1)
		low.Key = "low"
		if _, err := call.do(t, acts, low); !errors.Is(err, admin.ErrForbidden) {
			t.Fatalf("%s by %s: %v", call.kind, low.Who.Role, err)
		}
		if now := scan[string](t, pool, everything); now != before {
			t.Fatalf("%s that was forbidden changed something", call.kind)
		}
		request := as(role)
		request.Key = fmt.Sprint("key ", i)
		if word := words()[call.kind]; word != "" {
			for _, typed := range []string{"", "yes"} {
				request.Confirm = typed
				if _, err := call.do(t, acts, request); !errors.Is(err, admin.ErrDeclined) ||
					!strings.Contains(err.Error(), word) {
					t.Errorf("%s after %q was typed: %v, want that it asks for %q", call.kind, typed, err, word)
				}
			}
			if now := scan[string](t, pool, everything); now != before {
				t.Fatalf("%s that was not confirmed changed something", call.kind)
			}
			request.Confirm = word
		}
		logged := scan[int](t, pool, acted)
		if _, err := call.do(t, acts, request); err != nil {
			t.Fatalf("%s: %v", call.kind, err)
		}
		now := scan[string](t, pool, everything)
		if n := scan[int](t, pool, acted); n != logged+1 {
			t.Errorf("%s wrote %d rows of the operators' log", call.kind, n-logged)
		}
		if got := scan[string](t, pool, `SELECT concat(act, ' ', actor, ' ', reason) FROM tidemark.operator_log
			WHERE `+ofActs+` ORDER BY id DESC LIMIT 1`); got != string(call.kind)+" ada a test" {
			t.Errorf("%s is in the operators' log as %q", call.kind, got)
		}
		again, err := call.do(t, acts, request)
		if err != nil || !again.Repeated {
			t.Errorf("%s again with its key: %+v, %v", call.kind, again, err)
		}
		if after := scan[string](t, pool, everything); after != now {
			t.Errorf("%s again with its key changed something", call.kind)
		}
		request.Reason = "another"
		if _, err := call.do(t, acts, request); !errors.Is(err, admin.ErrKeyReused) {
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
	named := func(name string) admin.Request {
		named := r
		named.Key, named.Confirm = "", name
		return named
	}
	unexplained := r
	unexplained.Reason = ""
	for what, c := range map[string]struct {
		by   admin.Request
		call call
		want error
	}{
		"a pair that is not there":    {r, call{"", "requeueFailed", "projection=p campaign=nowhere"}, failed.ErrNotFound},
		"a rebuild that is not there": {r, call{"", "abortRebuild", "projection=p"}, rebuild.ErrNoRebuild},
		"tables that are not there":   {r, call{"", "rollbackProjection", "projection=p"}, rebuild.ErrNoPrevious},
		"a projection that is not there": {
			named("q"), call{"", "removeProjection", "projection=q tables=true"}, rebuild.ErrUnknownProjection,
		},
		"a removal that was not confirmed": {
			named("yes"), call{"", "removeProjection", "projection=p tables=true"}, admin.ErrDeclined,
		},
		"a group that is not there": {named("h"), call{"", "removeGroup", "group=h"}, outbox.ErrNotRegistered},
		"a group that is in use":    {named("g"), call{"", "removeGroup", "group=g"}, outbox.ErrInUse},
		"pairs that are not there": {
			named("requeue 0"), call{"", "requeueManyFailed", "class=infrastructure"}, admin.ErrNotFound,
		},
		"without a reason": {
			unexplained, call{"", "resolveFailed", "projection=p campaign=c001 seq=1"}, admin.ErrInvalid,
		},
	} {
		if _, err := c.call.do(t, acts, c.by); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
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
			o, err := acting.Do(t.Context(), acts, r, "pauseGroup", "group=g", "for=1h")
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
	pool, by := database(t, 1)
	r := as(auth.Admin)
	r.Key = "k"
	var tokens []string
	for range 2 {
		o, err := acting.Do(t.Context(), by, r, "createToken", "name=eve", "role=operator")
		if err != nil {
			t.Fatal(err)
		}
		var made acts.NewToken
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

// TestAPersonIsNotGuessedFromAKeptRequest compares what is kept of a request with the hash of a guess.
func TestAPersonIsNotGuessedFromAKeptRequest(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r := admin.Request{Who: auth.Identity{Name: "ada", Role: auth.Admin}, Reason: "asked", Key: "k"}
	act := admin.Act{Kind: admin.ActErase, Name: "eraseSubjects", Role: auth.Admin, Hidden: []any{[]string{"ann"}}}
	does := func(act admin.Act) (*admin.Outcome, error) {
		return admin.On(pool).Do(t.Context(), r, act, func(context.Context, pgx.Tx) (any, error) { return nil, nil })
	}
	if o, err := does(act); err != nil || o.Repeated {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := does(act); err != nil || !o.Repeated {
		t.Errorf("a repetition: %+v, %v", o, err)
	}
	guess := sha256.Sum256([]byte("erased\x00eraseSubjects\x00null\x00asked\x00" + fmt.Sprintf("%q", act.Hidden)))
	if n := scan[int](t, pool, fmt.Sprintf(`SELECT count(*) FROM tidemark.act_keys WHERE request = E'\\x%x'`, guess)); n != 0 {
		t.Error("who reads the table can test guesses")
	}
	act.Hidden = []any{[]string{"bob"}}
	if _, err := does(act); !errors.Is(err, admin.ErrKeyReused) {
		t.Errorf("another person: %v", err)
	}
}
