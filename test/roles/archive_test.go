package roles_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestArchivesAreTheOperators(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	appender, worker, operator := in.as(t, "appender"), in.as(t, "worker"), in.as(t, "operator")
	add := func() error {
		return pgx.BeginFunc(t.Context(), appender, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, event.Event{Type: "a"}, event.Event{Type: "b"})
			return err
		})
	}
	must(t, add())
	store, err := archive.NewFolder(t.TempDir())
	must(t, err)
	r := archive.Request{Campaigns: []string{"c"}, By: "anna", Reason: "a test"}
	if done, err := archive.Run(t.Context(), worker, store, r); err == nil {
		t.Errorf("a worker archived %+v", done)
	}
	if done, err := archive.Run(t.Context(), operator, store, r); err != nil || done.Campaigns != 1 {
		t.Errorf("an operator archived %+v, %v", done, err)
	}
	if err := add(); !errors.Is(err, event.ErrArchived) {
		t.Errorf("an append: %v", err)
	}
	publisher := in.as(t, "publisher")
	for e, err := range journal.ReadAll(t.Context(), publisher, 0) {
		if !errors.Is(err, event.ErrArchived) {
			t.Errorf("a publisher reads %+v, %v", e, err)
		}
	}
	if e, err := journal.Get(t.Context(), archive.NewReader(store, 0).Reading(worker), "c", 1); err != nil || e.Type != "a" {
		t.Errorf("a worker reads %+v, %v", e, err)
	}
	change := []string{
		"DELETE FROM tidemark.archives", "UPDATE tidemark.archives SET campaigns = 0",
		"SELECT tidemark.archive('x', '', 1, '{}', '{}', '', '')", "SELECT tidemark.restore('{}', '{}')",
	}
	refuses(t, worker, change...)
	refuses(t, publisher, change...)
	refuses(t, appender, append(change, "SELECT FROM tidemark.archives", "SELECT tidemark.archive_lines('{c}')")...)
	refuses(t, in.as(t, "reader"), append(change, "SELECT FROM tidemark.archives")...)
	refuses(t, operator, change[:2]...)
	if done, err := archive.Restore(t.Context(), operator, store, archive.RestoreRequest{All: true}); err != nil || done.Events != 2 {
		t.Errorf("an operator restored %+v, %v", done, err)
	}
	refuses(t, worker, "INSERT INTO tidemark.journal_changes VALUES (pg_current_xact_id(), 'archive')",
		"SELECT tidemark.begin_change('archive')")
	refuses(t, operator, "SELECT tidemark.begin_change('erase')")
	var did string
	must(t, in.admin.QueryRow(t.Context(), `SELECT string_agg(concat(act, ' ', database_user = $1), ', ' ORDER BY id)
		FROM tidemark.operator_log`, in.prefix+"_operator_login").Scan(&did))
	if did != "events_archived t, events_restored t" {
		t.Errorf("the log has %s", did)
	}
	must(t, add())
	if done, err := archive.Run(t.Context(), operator, store, r); err != nil || done.Campaigns != 1 {
		t.Errorf("an operator archived %+v, %v", done, err)
	}
	erases := erasure.Request{Campaign: "c", Archive: store, By: "anna", Reason: "a test"}
	if c, err := erasure.Erase(t.Context(), operator, erases); err != nil || c.Events != 4 || len(c.Objects) != 2 {
		t.Errorf("an operator erased %+v, %v", c, err)
	}
}

// TestAppendersAskAndWorkersBringBackOnceTheyMay grants what docs/guides/archive.md names.
func TestAppendersAskAndWorkersBringBackOnceTheyMay(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	appender, worker := in.as(t, "appender"), in.as(t, "worker")
	add := `SELECT tidemark.append('c', '[{"type": "a"}, {"type": "b"}]')`
	_, err := appender.Exec(t.Context(), add)
	must(t, err)
	store, err := archive.NewFolder(t.TempDir())
	must(t, err)
	_, err = archive.Run(t.Context(), in.admin, store, archive.Request{Campaigns: []string{"c"}, By: "anna", Reason: "a test"})
	must(t, err)
	serves := &retention.Runner{Pool: worker, Store: store, Keep: time.Hour, Owner: "w", Logger: slog.New(slog.DiscardHandler)}
	must(t, serves.Restore(t.Context()))
	if archived, err := archive.Ask(t.Context(), appender, "c"); err != nil || !archived {
		t.Errorf("an appender asks: %v, %v", archived, err)
	}
	refuses(t, appender, "SELECT FROM tidemark.restore_requests", "DELETE FROM tidemark.restore_requests",
		"SELECT tidemark.restore('{c}', '{x}', '1 h')")
	if err := serves.Restore(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied for function restore") {
		t.Errorf("a worker without the privilege: %v", err)
	}
	asked, err := retention.Requests(t.Context(), in.admin, "", 10)
	if err != nil || len(asked) != 1 || asked[0].AskedBy != in.prefix+"_appender_login" || !strings.Contains(asked[0].Error,
		"permission denied") {
		t.Errorf("the request: %+v, %v", asked, err)
	}
	_, err = in.admin.Exec(t.Context(), `UPDATE tidemark.restore_requests SET attempt_at = now();
		GRANT EXECUTE ON FUNCTION tidemark.restore TO `+in.prefix+`_worker`)
	must(t, err)
	must(t, serves.Restore(t.Context()))
	_, err = appender.Exec(t.Context(), add)
	must(t, err)
}

// TestWorkersArchiveByPolicyOnceTheyMay grants what docs/guides/archive.md names. The script takes it back.
func TestWorkersArchiveByPolicyOnceTheyMay(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	worker := in.as(t, "worker")
	store, err := archive.NewFolder(t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	r := &retention.Runner{
		Pool: worker, Store: store, Owner: "w", Logger: slog.New(slog.DiscardHandler), Policies: []retention.Policy{{
			Name: "shut", ClosedFor: time.Microsecond, Types: []string{"closed"}, Every: time.Hour, Rate: 1000,
		}},
	}
	run := func(when, campaign string, may bool) {
		t.Helper()
		_, err := in.admin.Exec(t.Context(), `SELECT tidemark.append($1, '[{"type": "opened"}, {"type": "closed"}]')`, campaign)
		must(t, err)
		_, err = in.admin.Exec(t.Context(), `UPDATE tidemark.retention SET began_at = began_at - interval '1 hour'`)
		must(t, err)
		must(t, r.Step(t.Context()))
		known, err := retention.List(t.Context(), in.admin, "", 10)
		if must(t, err); len(known) != 1 {
			t.Fatalf("%s: policies %+v", when, known)
		}
		denied := strings.Contains(known[0].Error, "permission denied for function archive")
		if denied == may || may && (known[0].Error != "" || known[0].Campaigns == 0) {
			t.Errorf("%s: the policy's run is %+v", when, known[0])
		}
	}
	grant := `GRANT EXECUTE ON FUNCTION tidemark.archive, tidemark.archive_lines, tidemark.not_archivable TO ` +
		in.prefix + `_worker`
	run("without the grant", "oak", false)
	_, err = in.admin.Exec(t.Context(), grant)
	must(t, err)
	run("with it", "ash", true)
	in.apply(t)
	run("after the script ran again", "elm", false)
}
