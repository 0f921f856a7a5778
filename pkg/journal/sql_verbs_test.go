package journal_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestEveryVerbTakesATransactionOfDatabaseSQL calls each in one transaction, and sees what it has itself written.
func TestEveryVerbTakesATransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	raw, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Rollback() })
	tx, ctx := journal.SQL(raw), t.Context()
	var j journal.Journal
	note := event.Event{Type: "noted", Tags: []string{"shelf=1"}, Payload: []byte(`{"n": 1}`), OccurredAt: time.Unix(9, 0)}

	first, err := j.Append(ctx, tx, "oak", journal.None, note)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.AppendAll(ctx, tx, journal.Batch{CampaignID: "oak", Events: []event.Event{note, note}}); err != nil {
		t.Fatal(err)
	}
	n, seq, err := journal.Load(ctx, tx, "oak", count)
	if err != nil || n != 3 || seq != 3 {
		t.Errorf("Load: %d events up to %d, %v", n, seq, err)
	}
	n, condition, err := journal.Decide(ctx, tx, event.Tagged([]string{"shelf=1"}), count)
	if err != nil || n != 3 {
		t.Fatalf("Decide: %d events, %v", n, err)
	}
	decided := note
	decided.CampaignID = "elm"
	if _, err := j.AppendIf(ctx, tx, []event.Event{decided}, condition); err != nil {
		t.Fatal(err)
	}
	if got, err := journal.Get(ctx, tx, "oak", 1); err != nil || got.ID != first[0].ID || len(got.Tags) != 1 ||
		!got.OccurredAt.Equal(note.OccurredAt) {
		t.Errorf("Get: %+v, %v", got, err)
	}
	if got, err := journal.Find(ctx, tx, "oak", first[0].ID); err != nil || got.Seq != 1 {
		t.Errorf("Find: %+v, %v", got, err)
	}
	if got, err := journal.Last(ctx, tx, "elm"); err != nil || got.Seq != 1 {
		t.Errorf("Last: %+v, %v", got, err)
	}
	if doc, err := j.Encode(ctx, tx, "oak", []event.Event{note}); err != nil || !strings.Contains(doc, "shelf=1") {
		t.Errorf("Encode: %s, %v", doc, err)
	}

	due := time.Now().Add(time.Hour)
	s, err := j.AppendAt(ctx, tx, "oak", due, note)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := journal.Reschedule(ctx, tx, s.ID, due.Add(time.Hour))
	if err != nil || !moved.Done || !moved.WasDueAt.Equal(s.DueAt) {
		t.Errorf("Reschedule: %+v, %v", moved, err)
	}
	for _, want := range []bool{true, false} {
		if got, err := journal.Cancel(ctx, tx, s.ID); err != nil || got != want {
			t.Errorf("Cancel: %v, %v, want %v", got, err, want)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Get(ctx, tx, "oak", 1); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("Get after the end: %v", err)
	}
	if _, err := j.Append(ctx, tx, "oak", journal.Any, note); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("Append after the end: %v", err)
	}
	if eventsIn(t, pool, "oak") != 3 || eventsIn(t, pool, "elm") != 1 {
		t.Error("not all events were committed")
	}
}

// anotherDriver is pgx's that takes only the values which database/sql knows, as other drivers do.
type anotherDriver struct{ driver.Connector }

func (d anotherDriver) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return narrow{conn.(*stdlib.Conn)}, nil
}

type narrow struct{ conn *stdlib.Conn }

func (n narrow) Prepare(query string) (driver.Stmt, error) { return n.conn.Prepare(query) }
func (n narrow) Close() error                              { return n.conn.Close() }
func (n narrow) Begin() (driver.Tx, error)                 { return n.conn.Begin() }
func (n narrow) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return n.conn.QueryContext(ctx, query, args)
}

// TestAnotherDriverAppendsAndIsToldThatItCannotRead has a driver that is not pgx's to database/sql.
func TestAnotherDriverAppendsAndIsToldThatItCannotRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	db := sql.OpenDB(anotherDriver{stdlib.GetPoolConnector(pool)})
	t.Cleanup(func() { _ = db.Close() })
	raw, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Rollback() })
	tx, ctx := journal.SQL(raw), t.Context()
	var j journal.Journal
	e := event.Event{ID: uuid.New(), Type: "noted"}
	if _, err := j.Append(ctx, tx, "oak", journal.Exactly(0), e); err != nil {
		t.Error(err)
	}
	s, err := j.AppendAt(ctx, tx, "oak", time.Now().Add(time.Hour), event.Event{Type: "noted"})
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := journal.Reschedule(ctx, tx, s.ID, time.Now().Add(2*time.Hour)); err != nil || !moved.Done {
		t.Errorf("%+v, %v", moved, err)
	}
	if done, err := journal.Cancel(ctx, tx, s.ID); err != nil || !done {
		t.Errorf("%v, %v", done, err)
	}
	if _, err := journal.Last(ctx, tx, "oak"); err == nil || !strings.Contains(err.Error(), "takes pgx's driver") {
		t.Errorf("got %v", err)
	}
	if err := tx.Commit(ctx); err != nil || eventsIn(t, pool, "oak") != 1 {
		t.Errorf("not committed: %v", err)
	}
}
