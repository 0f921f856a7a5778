package web_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// rewind takes all events after a position from the journal, as a failover does.
func (s *served) rewind(t *testing.T, position int64) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), fmt.Sprintf(`BEGIN; SET LOCAL session_replication_role = replica;
		DELETE FROM tidemark.journal WHERE position > %[1]d; DELETE FROM tidemark.event_tags WHERE position > %[1]d;
		UPDATE tidemark.histories SET position = least(position, %[1]d); DELETE FROM tidemark.incarnation;
		SELECT setval('tidemark.journal_position', %[1]d); COMMIT`, position), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsGoOnWithTheEventsThatTheJournalHas takes commits from the journal under open streams, and
// appends more than there were.
func TestStreamsGoOnWithTheEventsThatTheJournalHas(t *testing.T) {
	t.Parallel()
	for path, placed := range map[string]func(journal.Appended) int64{
		"/events/stream?type=noted":     func(a journal.Appended) int64 { return a.Position },
		"/campaigns/oak/events/stream?": func(a journal.Appended) int64 { return a.Seq },
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			add := func(n int) (all []int64) {
				for range n {
					all = append(all, placed(appendOne(t, s.pool, "oak", "noted")))
				}
				return all
			}
			kept := add(6)
			f := s.follow(t, auth.Operator, path, "")
			same(t, "what is kept", f.ids(t, 6), kept)
			if _, err := ledger.KeepHistory(t.Context(), s.pool); err != nil {
				t.Fatal(err)
			}
			var last int64
			if err := s.pool.QueryRow(t.Context(), `SELECT last_value FROM tidemark.journal_position`).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if _, err := s.pool.Exec(t.Context(), `UPDATE tidemark.histories SET position = $1`, last); err != nil {
				t.Fatal(err)
			}
			lost := add(3)
			var cursors []string
			for _, want := range lost {
				e := f.next(t)
				same(t, "what is lost", e.id, want)
				cursors = append(cursors, e.cursor)
			}
			before, _, _ := strings.Cut(cursors[0], "@")
			s.rewind(t, last)
			added := add(12)
			reset := f.next(t)
			if reset.event != "reset" || reset.id != kept[5] {
				t.Errorf("the stream says %+v, want a reset to %d", reset, kept[5])
			}
			same(t, "what is new", f.ids(t, 12), added)
			// A client that comes back has seen events that are lost, or that are not there yet.
			for _, cursor := range []string{cursors[2], cursors[0], before + "@0123456789abcdef", fmt.Sprint(added[11] + 1000)} {
				back := s.follow(t, auth.Operator, path, cursor)
				reset := back.next(t)
				want := map[bool]int64{true: kept[5], false: added[11]}[strings.HasPrefix(cursor, before) || cursor == cursors[2]]
				if strings.HasSuffix(cursor, "@0123456789abcdef") {
					want = 0
				}
				if reset.event != "reset" || reset.id != want {
					t.Errorf("after %s the stream says %+v, want a reset to %d", cursor, reset, want)
				}
				if want == kept[5] {
					same(t, "what follows the reset", back.ids(t, 12), added)
				}
			}
			// Up to where the histories are the same, an old cursor is good; so is a place without a history.
			_, history, _ := strings.Cut(cursors[0], "@")
			for _, cursor := range []string{fmt.Sprintf("%d@%s", kept[4], history), fmt.Sprint(kept[4])} {
				same(t, "after "+cursor, s.follow(t, auth.Operator, path, cursor).ids(t, 2), []int64{kept[5], added[0]})
			}
		})
	}
}

// TestAnExportAfterACursorOfALostHistoryNamesThePlaceToGoOnFrom is for the API, the command's function
// and reads.
func TestAnExportAfterACursorOfALostHistoryNamesThePlaceToGoOnFrom(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	if _, err := ledger.KeepHistory(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	kept := appendOne(t, s.pool, "oak", "noted").Position
	if _, err := s.pool.Exec(t.Context(), `UPDATE tidemark.histories SET position = $1`, kept); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		appendOne(t, s.pool, "oak", "noted")
	}
	var out bytes.Buffer
	done, err := ndjson.Export(t.Context(), s.pool, &out, ndjson.ExportConfig{})
	if err != nil || done.Events != 4 || done.Position.History == "" {
		t.Fatalf("exported %+v, %v", done, err)
	}
	s.rewind(t, kept)
	if _, err := ledger.KeepHistory(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		appendOne(t, s.pool, "oak", "noted")
	}
	response, body := s.call(t, auth.Admin, http.MethodGet, "/api/v1/events/export?after="+done.Position.String(), "", nil)
	if response.StatusCode != http.StatusConflict || !strings.Contains(body, fmt.Sprintf(`"%d@`, kept)) {
		t.Errorf("the export is answered %s: %s", response.Status, body)
	}
	for what, after := range map[string]event.Cursor{
		"of a lost history": done.Position, "beyond the end": {Position: kept + 1000},
		"of an unknown history": {Position: kept, History: "0123456789abcdef"},
	} {
		var reset *event.ResetError
		_, err = ndjson.Export(t.Context(), s.pool, &out, ndjson.ExportConfig{After: after})
		if !asReset(err, &reset) {
			t.Errorf("an export after a cursor %s ends with %v", what, err)
			continue
		}
		read := 0
		for e, err := range journal.ReadAfter(t.Context(), s.pool, after) {
			if read++; !asReset(err, &reset) {
				t.Errorf("a read after a cursor %s has %v, %v", what, e, err)
			}
		}
		same(t, "a read after a cursor "+what, read, 1)
		want := map[string]int{"of a lost history": 5, "of an unknown history": 6}[what]
		read = 0
		for _, err := range journal.ReadAfter(t.Context(), s.pool, reset.Go) {
			if read++; err != nil {
				t.Error(err)
			}
		}
		same(t, "events after the reset "+what, read, want)
	}
	for _, err := range journal.ReadAll(t.Context(), s.pool, kept+1000) {
		if reset := (*event.ResetError)(nil); !asReset(err, &reset) {
			t.Errorf("a read beyond the end: %v", err)
		}
	}
}

func asReset(err error, reset **event.ResetError) bool {
	return errors.As(err, reset) && errors.Is(err, event.ErrReset)
}

// TestACursorNamesItsHistoryWithoutAWorker loses commits that an export alone has read, with its cursor.
func TestACursorNamesItsHistoryWithoutAWorker(t *testing.T) {
	t.Parallel()
	for who, cursor := range map[string]func(t *testing.T, s *served) event.Cursor{
		"an export": func(t *testing.T, s *served) event.Cursor {
			t.Helper()
			done, err := ndjson.Export(t.Context(), s.pool, io.Discard, ndjson.ExportConfig{})
			if err != nil {
				t.Fatal(err)
			}
			return done.Position
		},
		"a Go program": func(t *testing.T, s *served) (at event.Cursor) {
			t.Helper()
			var err error
			if at.History, err = journal.History(t.Context(), s.pool); err != nil {
				t.Fatal(err)
			}
			for e, err := range journal.ReadAll(t.Context(), s.pool, 0) {
				if at.Position = e.Position; err != nil {
					t.Fatal(err)
				}
			}
			return at
		},
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			kept := appendOne(t, s.pool, "oak", "noted").Position
			shared := cursor(t, s)
			if shared.Position != kept || shared.History == "" {
				t.Errorf("the cursor is %s", shared)
			}
			for range 3 {
				appendOne(t, s.pool, "oak", "noted")
			}
			lost := cursor(t, s)
			s.rewind(t, kept)
			for range 5 {
				appendOne(t, s.pool, "oak", "noted")
			}
			var reset *event.ResetError
			_, err := ndjson.Export(t.Context(), s.pool, io.Discard, ndjson.ExportConfig{After: lost})
			if !asReset(err, &reset) {
				t.Errorf("after %s: %v", lost, err)
			} else if reset.Go.Position != kept {
				t.Errorf("it is reset to %s, want %d", reset.Go, kept)
			}
			if done, err := ndjson.Export(t.Context(), s.pool, io.Discard, ndjson.ExportConfig{After: shared}); err != nil ||
				done.Events != 5 {
				t.Errorf("after %s, which both share: %d events, %v", shared, done.Events, err)
			}
		})
	}
}

// TestAReadInATransactionHoldsNoHistoryUp reads in a transaction that stays open, of a login that may not
// keep the history, and in one that may not write.
func TestAReadInATransactionHoldsNoHistoryUp(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	appendOne(t, s.pool, "oak", "noted")
	reads := func(db event.Querier) {
		t.Helper()
		read := 0
		for _, err := range journal.ReadAfter(t.Context(), db, event.Cursor{}) {
			if read++; err != nil {
				t.Fatal(err)
			}
		}
		same(t, "events", read, 1)
	}
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, set := range []string{
		"SET default_transaction_read_only = on", "RESET default_transaction_read_only", "BEGIN",
	} {
		if _, err := conn.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if set[0] == 'R' {
			continue
		}
		reads(conn)
		reads(conn.Conn())
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	reads(tx)
	if _, err := ledger.KeepHistory(t.Context(), s.pool); err != nil {
		t.Errorf("a worker waits for the open transaction: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `REVOKE EXECUTE ON FUNCTION tidemark.keep_history FROM PUBLIC;
		SET ROLE pg_read_all_data`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	reads(conn)
	if _, err := conn.Exec(t.Context(), `RESET ROLE`); err != nil {
		t.Fatal(err)
	}
}
