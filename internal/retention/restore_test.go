package retention_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// server returns a runner that archives closed campaigns at each step and brings back, and its folder.
func server(t *testing.T, pool *pgxpool.Pool, owner string) (*retention.Runner, string) {
	t.Helper()
	r := runner(t, pool, owner, shut)
	folder := t.TempDir()
	store, err := archive.NewFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r.Store, r.Keep = store, time.Hour
	return r, folder
}

// closedOnes closes campaigns and archives each in an object of its own, by a policy of r.
func closedOnes(t *testing.T, pool *pgxpool.Pool, r *retention.Runner, ids ...string) {
	t.Helper()
	for _, id := range ids {
		exec(t, pool, `SELECT tidemark.append($1, '[{"type": "opened"}, {"type": "closed"}]')`, id)
		again(t, pool, r)
	}
}

// again runs the policies of r, as if they were due.
func again(t *testing.T, pool *pgxpool.Pool, r *retention.Runner) {
	t.Helper()
	exec(t, pool, `UPDATE tidemark.retention SET began_at = NULL`)
	step(t, r)
}

// serve is a step of r, as if all open requests were due.
func serve(t *testing.T, pool *pgxpool.Pool, r *retention.Runner) error {
	t.Helper()
	exec(t, pool, `UPDATE tidemark.restore_requests SET attempt_at = '-infinity' WHERE kept_until IS NULL`)
	return r.Restore(t.Context())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, pool *pgxpool.Pool, id string) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, id, journal.Any, event.Event{Type: "late"})
		return err
	})
}

func ask(t *testing.T, pool *pgxpool.Pool, id string, want bool) {
	t.Helper()
	if archived, err := archive.Ask(t.Context(), pool, id); err != nil || archived != want {
		t.Fatalf("%q is archived: %v, %v; want %v", id, archived, err, want)
	}
}

func requests(t *testing.T, pool *pgxpool.Pool) []retention.Request {
	t.Helper()
	all, err := retention.Requests(t.Context(), pool, "", 10)
	must(t, err)
	return all
}

func value(t *testing.T, pool *pgxpool.Pool, sql string) (v string) {
	t.Helper()
	must(t, pool.QueryRow(t.Context(), `SELECT coalesce((`+sql+`)::text, '')`).Scan(&v))
	return v
}

func TestAnAppendBringsItsCampaignBackAndItIsKeptForAWhile(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	exec(t, pool, `SELECT tidemark.append('oak', '[{"type": "opened"}, {"type": "closed"}]')`)
	events := `SELECT md5(string_agg(j::text, ' ' ORDER BY seq)) FROM tidemark.journal j WHERE seq < 3`
	before := value(t, pool, events)
	again(t, pool, r)
	must(t, serve(t, pool, r)) // so the duty is taken
	err := add(t, pool, "oak")
	if !errors.Is(err, event.ErrArchived) || !strings.Contains(err.Error(), "ask for it with archive.Ask (tidemark.ask_restore)") {
		t.Fatalf("an append: %v", err)
	}
	ask(t, pool, "oak", true)
	ask(t, pool, "oak", true)
	if all := requests(t, pool); len(all) != 1 || all[0].CampaignID != "oak" || all[0].AskedBy == "" || all[0].KeptUntil != nil {
		t.Errorf("asked twice, the requests are %+v", all)
	}
	must(t, serve(t, pool, r))
	ask(t, pool, "oak", false)
	if all := requests(t, pool); len(all) != 1 || all[0].KeptUntil == nil || all[0].NextAt != nil || all[0].Error != "" {
		t.Errorf("served, the requests are %+v", all)
	}
	if log := value(t, pool, `SELECT string_agg(concat_ws(' ', actor = session_user, act, reason, campaign_id), ';')
		FROM tidemark.operator_log WHERE act = 'restored'`); log != "t restored an append asked for it oak" {
		t.Errorf("on record is %q", log)
	}
	again(t, pool, r)
	known, err := retention.List(t.Context(), pool, "", 10)
	must(t, err)
	if why := fmt.Sprint(known[0].Left); archived(t, pool) != "" || !strings.Contains(why, "oak an append has asked for it, it is kept until 20") {
		t.Errorf("archived %q, left %s", archived(t, pool), why)
	}
	must(t, add(t, pool, "oak"))
	if after := value(t, pool, events); after != before {
		t.Errorf("the events are %s, were %s", after, before)
	}

	exec(t, pool, `SELECT tidemark.append('oak', '[{"type": "closed"}]')`)
	exec(t, pool, `UPDATE tidemark.restore_requests SET kept_until = clock_timestamp()`)
	again(t, pool, r)
	if ids := archived(t, pool); ids != "oak" {
		t.Errorf("when it is not kept any more, archived %q", ids)
	}
	ask(t, pool, "oak", true) // the request that was served is still there
	must(t, serve(t, pool, r))
	must(t, add(t, pool, "oak"))
	exec(t, pool, `UPDATE tidemark.restore_requests SET kept_until = clock_timestamp()`)
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp() + interval '19 s'`)
	must(t, r.Restore(t.Context()))
	if all := requests(t, pool); len(all) > 0 {
		t.Errorf("when their time is over, there are still %+v", all)
	}
	exec(t, pool, `INSERT INTO tidemark.restore_requests (campaign_id, asked_by, asked_at, attempt_at)
		VALUES ('oak', 'shop', now(), now())`) // by a call that did not see it come back
	must(t, r.Restore(t.Context()))
	if all := requests(t, pool); len(all) > 0 {
		t.Errorf("it is back, there are still %+v", all)
	}
}

func TestARequestIsRefusedWhileNoWorkerServes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "oak")
	refused := func(when, want string) {
		t.Helper()
		_, err := archive.Ask(t.Context(), pool, "oak")
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "TM015" || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("policies alone", "add restore to the file of TIDEMARK_RETENTION, or run `tidemark campaign restore`")
	ask(t, pool, "none", false)
	must(t, r.Restore(t.Context()))
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp() - interval '1 min'`)
	ask(t, pool, "oak", true) // workers may be restarting
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp() - interval '3 min'`)
	refused("none since minutes", "no worker brings campaigns back")

	must(t, r.Restore(t.Context()))
	if ids := archived(t, pool); ids != "" {
		t.Errorf("the next worker has left %q", ids)
	}
}

func TestOpenRequestsAreLimited(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "oak", "elm")
	must(t, r.Restore(t.Context()))
	ask(t, pool, "oak", true)
	exec(t, pool, `INSERT INTO tidemark.restore_requests (campaign_id, asked_by, asked_at, attempt_at)
		SELECT 'c' || n, 'eve', now(), now() FROM generate_series(1, 999) n`)
	if _, err := archive.Ask(t.Context(), pool, "elm"); err == nil ||
		!strings.Contains(err.Error(), "1000 requests for archived campaigns are open, which is the limit") {
		t.Errorf("one above the limit: %v", err)
	}
	ask(t, pool, "oak", true)
	exec(t, pool, `UPDATE tidemark.restore_requests SET kept_until = 'infinity' WHERE campaign_id = 'c1'`)
	ask(t, pool, "elm", true)
}

func TestAMissingObjectHoldsUpItsCampaignsAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, folder := server(t, pool, "a")
	closedOnes(t, pool, r, "ash", "elm", "oak")
	must(t, r.Restore(t.Context()))
	object := func(id string) string {
		return value(t, pool, `SELECT metadata #>> '{$archived,object}' FROM tidemark.journal WHERE seq = 2 AND campaign_id = '`+id+`'`)
	}
	ash, elm := object("ash"), object("elm")
	for _, name := range []string{ash, elm} {
		must(t, os.Rename(filepath.Join(folder, name), filepath.Join(folder, name+".away")))
	}
	for _, id := range []string{"ash", "elm", "oak"} {
		ask(t, pool, id, true)
	}
	if err := serve(t, pool, r); !errors.Is(err, archive.ErrObject) {
		t.Errorf("without objects: %v", err)
	}
	if ids := archived(t, pool); ids != "ash elm" {
		t.Errorf("still archived: %q, want ash and elm", ids)
	}
	waiting := func() time.Duration {
		q := requests(t, pool)[1]
		if q.CampaignID != "elm" || q.NextAt == nil || !strings.Contains(q.Error, elm) || strings.Contains(q.Error, ash) {
			t.Fatalf("the request for elm is %+v", q)
		}
		return time.Until(*q.NextAt)
	}
	if first := waiting(); first > 2*time.Second {
		t.Errorf("first it waits for %s", first)
	}
	exec(t, pool, `UPDATE tidemark.restore_requests SET attempt_at = now() + interval '1 min' WHERE kept_until IS NULL`)
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp() + interval '19 s'`)
	must(t, r.Restore(t.Context())) // it renews its duty, and none is due
	for range 4 {
		if err := serve(t, pool, r); !errors.Is(err, archive.ErrObject) {
			t.Errorf("without objects: %v", err)
		}
	}
	if later := waiting(); later < 4*time.Second {
		t.Errorf("then it waits for %s", later)
	}
	must(t, os.Rename(filepath.Join(folder, elm+".away"), filepath.Join(folder, elm)))
	if err := serve(t, pool, r); !errors.Is(err, archive.ErrObject) {
		t.Errorf("without the object of ash: %v", err)
	}
	must(t, add(t, pool, "elm"))
}

func TestOneOfTwoRunnersServes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a, _ := server(t, pool, "a")
	closedOnes(t, pool, a, "oak")
	b := *a
	b.Owner = "b"
	must(t, b.Restore(t.Context()))
	ask(t, pool, "oak", true)
	must(t, serve(t, pool, a))
	if ids := archived(t, pool); ids != "oak" {
		t.Errorf("without the duty, it has left %q", ids)
	}
	exec(t, pool, `UPDATE tidemark.duties SET owner = 'dead' WHERE name = 'restore'`) // and it is about to expire
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp() WHERE name = 'restore'`)
	var both sync.WaitGroup
	for _, r := range []*retention.Runner{a, &b} {
		both.Go(func() {
			if err := r.Restore(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	must(t, add(t, pool, "oak"))
	if n := value(t, pool, `SELECT count(*) FROM tidemark.operator_log WHERE act = 'restored'`); n != "1" {
		t.Errorf("it is on record %s times", n)
	}
}

// TestARunnerThatIsKilledLeavesTheRequestToTheNext ends the session of a runner in the restore's
// transaction, after the events are back.
func TestARunnerThatIsKilledLeavesTheRequestToTheNext(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "oak")
	must(t, r.Restore(t.Context()))
	ask(t, pool, "oak", true)
	exec(t, pool, `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
		CREATE TRIGGER die AFTER UPDATE OF kept_until ON tidemark.restore_requests EXECUTE FUNCTION die()`)
	if err := serve(t, pool, r); err == nil {
		t.Error("its session has ended, and it reports no error")
	}
	if log := value(t, pool, `SELECT count(*) FROM tidemark.operator_log WHERE act = 'restored'`); archived(t, pool) != "oak" || log != "0" {
		t.Errorf("half-way, archived %q, %s on record", archived(t, pool), log)
	}
	exec(t, pool, `DROP TRIGGER die ON tidemark.restore_requests`)
	exec(t, pool, `UPDATE tidemark.duties SET expires_at = clock_timestamp()`)
	next := *r
	next.Owner = "b"
	must(t, serve(t, pool, &next))
	must(t, add(t, pool, "oak"))
}

func TestAnOperatorsRestoreServesARequestToo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "oak")
	must(t, r.Restore(t.Context()))
	ask(t, pool, "oak", true)
	_, err := archive.Restore(t.Context(), pool, r.Store, archive.RestoreRequest{Campaigns: []string{"oak"}})
	must(t, err)
	if log := value(t, pool, `SELECT string_agg(concat_ws(' ', actor = session_user, reason), ';') FROM tidemark.operator_log
		WHERE act IN ('restored', 'events_restored')`); log != "t" {
		t.Errorf("on record is %q", log)
	}
	if all := requests(t, pool); len(all) != 1 || all[0].KeptUntil == nil {
		t.Errorf("the requests are %+v", all)
	}
	again(t, pool, r)
	if ids := archived(t, pool); ids != "oak" {
		t.Errorf("an operator's restore is not kept, archived %q", ids)
	}
}

func TestAScheduledAppendAsksForItsCampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "oak")
	fire := func() string {
		exec(t, pool, `UPDATE tidemark.scheduled SET attempt_at = now()`)
		return value(t, pool, `SELECT fired || ' ' || refused FROM tidemark.fire_scheduled(10, NULL, '-infinity', 0, '{}', NULL, false)`)
	}
	exec(t, pool, `SELECT tidemark.append_at('oak', now(), '[{"type": "late"}]')`)
	if got := fire(); got != "0 1" || len(requests(t, pool)) != 0 {
		t.Errorf("while no worker serves: %s, %+v", got, requests(t, pool))
	}
	must(t, r.Restore(t.Context()))
	if got := fire(); got != "0 1" || len(requests(t, pool)) != 1 {
		t.Errorf("it is refused: %s, %+v", got, requests(t, pool))
	}
	if why := value(t, pool, `SELECT error FROM tidemark.scheduled`); !strings.Contains(why, "campaign oak is archived in events-") {
		t.Errorf("refused, because %s", why)
	}
	must(t, serve(t, pool, r))
	if got := fire(); got != "1 0" {
		t.Errorf("when it is back: %s", got)
	}
}

// TestARequestForACampaignWhosePositionsAreTakenSaysSo serves requests on a copy whose sequence was behind.
// A transaction that has asked and stays open holds up who asks for the same campaign, for so long at most, and no
// scheduled append of others.
func TestAnOpenRequestHoldsUpItsCampaignAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "oak")
	must(t, serve(t, pool, r))
	tx, err := pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT tidemark.ask_restore('oak')`)
	must(t, err)
	exec(t, pool, `SELECT tidemark.append_at(c, now() - interval '1 s', '[{"type": "late"}]') FROM unnest('{ash,oak,yew}'::text[]) AS c`)
	if n := value(t, pool, `SELECT fired FROM tidemark.fire_scheduled(500, NULL, '-infinity', NULL, '{}', NULL, false)`); n != "2" {
		t.Errorf("%s appends are made while a request is open", n)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT set_config('lock_timeout', '100ms', true), tidemark.ask_restore('oak')`)
		return err
	})
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "55P03" {
		t.Errorf("a second request: %v", err)
	}
	if _, err = pool.Exec(t.Context(), `SELECT tidemark.ask_restore('oak')`); !errors.As(err, &refused) || refused.Code != "55P03" {
		t.Errorf("a second request without lock_timeout: %v", err)
	}
	must(t, tx.Commit(t.Context()))
	ask(t, pool, "oak", true)
}

func TestARequestForACampaignWhosePositionsAreTakenSaysSo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	r, _ := server(t, pool, "a")
	closedOnes(t, pool, r, "before", "oak", "elm")
	first := value(t, pool, `SELECT min(position) - 1 FROM tidemark.journal WHERE campaign_id = 'oak'`)
	must(t, serve(t, pool, r)) // so the duty is taken
	exec(t, pool, `SELECT setval('tidemark.journal_position', `+first+` - 1)`)
	exec(t, pool, `SELECT tidemark.append('new', '[{"type": "opened"}]')`)
	exec(t, pool, `SELECT setval('tidemark.journal_position', 100)`)
	ask(t, pool, "oak", true)
	ask(t, pool, "elm", true)
	must(t, serve(t, pool, r))
	if ids := archived(t, pool); ids != "before oak" {
		t.Errorf("archived are %q", ids)
	}
	for _, q := range requests(t, pool) {
		taken := strings.HasPrefix(q.Error, "position "+first+" belongs to event 1 of campaign new: ")
		if taken != (q.CampaignID == "oak") {
			t.Errorf("the request for %s says %q", q.CampaignID, q.Error)
		}
	}
}
