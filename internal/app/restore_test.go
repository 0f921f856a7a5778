package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAWorkerBringsBackWhatAnAppendNeeds runs a worker whose file has restore alone.
func TestAWorkerBringsBackWhatAnAppendNeeds(t *testing.T) {
	t.Parallel()
	pool, folder, file := pgtest.New(t), t.TempDir(), filepath.Join(t.TempDir(), "retention.yaml")
	if err := os.WriteFile(file, []byte("restore: {keep: 24h}"), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "oak", journal.Any, event.Event{Type: "opened"})
			return err
		})
	}
	store, err := archive.NewFolder(folder)
	if err := errors.Join(err, add(), add()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := archive.Run(t.Context(), pool, store, archive.Request{
		Campaigns: []string{"oak"}, By: "ada", Reason: "a test",
	}); err != nil {
		t.Fatal(err)
	}
	kind := publisher.Kind{Name: "memory", Open: func(publisher.Settings) (publisher.Sink, error) {
		return &memory.Sink{}, nil
	}}
	worker(t, pool, Options{Sinks: []publisher.Kind{kind}}, "--archive-url", "file://"+folder, "--retention", file)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		err := add()
		if err == nil {
			return
		}
		_, refused := archive.Ask(t.Context(), pool, "oak") // at first the worker may not serve yet
		if !errors.Is(err, event.ErrArchived) || time.Now().After(deadline) {
			t.Fatal(err, refused)
		}
	}
}
