package roles_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestArchivesAreTheOperators(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	appender, worker, operator := in.as(t, "appender"), in.as(t, "worker"), in.as(t, "operator")
	add := func() error {
		return pgx.BeginFunc(t.Context(), appender, func(tx pgx.Tx) error {
			_, err := journal.New(nil).Append(t.Context(), tx, "c", journal.Any, journal.Event{Type: "a"}, journal.Event{Type: "b"})
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
	if err := add(); !errors.Is(err, journal.ErrArchived) {
		t.Errorf("an append: %v", err)
	}
	publisher := in.as(t, "publisher")
	for e, err := range journal.ReadAll(t.Context(), publisher, 0) {
		if !errors.Is(err, journal.ErrArchived) {
			t.Errorf("a publisher reads %+v, %v", e, err)
		}
	}
	if e, err := journal.Get(t.Context(), archive.NewReader(store, 0).Reading(worker), "c", 1); err != nil || e.Type != "a" {
		t.Errorf("a worker reads %+v, %v", e, err)
	}
	change := []string{
		"DELETE FROM tidemark.archives", "UPDATE tidemark.archives SET campaigns = 0",
		"SELECT tidemark.archive('x', '', 1, '{}', '{}', '{}', '', '')", "SELECT tidemark.restore('{}', '{}')",
	}
	refuses(t, worker, change...)
	refuses(t, publisher, change...)
	refuses(t, appender, append(change, "SELECT FROM tidemark.archives", "SELECT tidemark.archive_lines('{c}')")...)
	refuses(t, in.as(t, "reader"), append(change, "SELECT FROM tidemark.archives")...)
	refuses(t, operator, change[:2]...)
	if done, err := archive.Restore(t.Context(), operator, store, archive.RestoreRequest{All: true}); err != nil || done.Events != 2 {
		t.Errorf("an operator restored %+v, %v", done, err)
	}
	must(t, add())
}
