package journal_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestTwoCopiesOfOneColdBackupGoOn puts one cold backup back twice. Each copy goes on by itself, and gets cursors and
// decisions of the other, and of before the backup.
func TestTwoCopiesOfOneColdBackupGoOn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	original, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, original, "kept", event.Event{Type: "kept"})
	keep(t, original)
	shared := end(t, original)
	original.Close()

	restore := func(t *testing.T, remedy bool) (*pgxpool.Pool, event.Cursor, journal.Condition) {
		t.Helper()
		pool := pgtest.Copy(t, url)
		// A cold copy has the row and the oids of what it was made of.
		exec(t, pool, `UPDATE tidemark.incarnation SET database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		if remedy {
			exec(t, pool, `DELETE FROM tidemark.incarnation`)
		}
		exec(t, pool, `SELECT tidemark.keep_history()`)
		mustAppendIf(t, pool, always(), tagged("own", "noted"), tagged("own", "noted"))
		exec(t, pool, `SELECT tidemark.keep_history()`)
		_, condition, err := journal.Decide(t.Context(), pool, event.Types("taken"), func(*int, event.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return pool, end(t, pool), condition
	}

	t.Run("with histories of their own", func(t *testing.T) {
		t.Parallel()
		_, ofA, decidedA := restore(t, true)
		b, ofB, _ := restore(t, true)
		if ofA.History == ofB.History || ofA.History == shared.History {
			t.Fatalf("histories %s, %s and, before, %s", ofA.History, ofB.History, shared.History)
		}
		if _, err := readAfter(t, b, shared); err != nil {
			t.Errorf("a cursor of before the backup: %v", err)
		}
		var reset *event.ResetError
		if _, err := readAfter(t, b, ofA); !errors.As(err, &reset) || reset.Go.Position != 0 {
			t.Errorf("a cursor of the other copy: %v", err)
		}
		beyond := shared
		beyond.Position++ // of what the original has appended since
		if _, err := readAfter(t, b, beyond); !errors.As(err, &reset) || reset.Go.Position != shared.Position {
			t.Errorf("a cursor of the original, of after the backup: %v", err)
		}
		if _, err := appendIf(t.Context(), b, decidedA, tagged("own", "taken")); !errors.Is(err, journal.ErrInvalidCondition) {
			t.Errorf("a decision of the other copy: %v", err)
		}
		if types, err := readAfter(t, b, ofB); err != nil || len(types) > 0 {
			t.Errorf("an own cursor: %v, %v", types, err)
		}
	})

	// The guide says so: the owner has to delete the row.
	t.Run("with the same history nothing is noticed", func(t *testing.T) {
		t.Parallel()
		_, ofA, decidedA := restore(t, false)
		b, ofB, _ := restore(t, false)
		if ofA != ofB || ofA.History != shared.History {
			t.Fatalf("cursors %v and %v", ofA, ofB)
		}
		if _, err := readAfter(t, b, ofA); err != nil {
			t.Errorf("a cursor of the other copy: %v", err)
		}
		if _, err := appendIf(t.Context(), b, decidedA, tagged("own", "taken")); err != nil {
			t.Errorf("a decision of the other copy: %v", err)
		}
	})
}

// readAfter returns the types of the events after a cursor.
func readAfter(t *testing.T, pool *pgxpool.Pool, after event.Cursor) (types []string, err error) {
	t.Helper()
	for e, err := range journal.ReadAfter(t.Context(), pool, after) {
		if err != nil {
			return types, err
		}
		types = append(types, e.Type)
	}
	return slices.Clip(types), nil
}

// end returns the cursor of the journal's last event.
func end(t *testing.T, pool *pgxpool.Pool) event.Cursor {
	t.Helper()
	history, err := journal.History(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return event.Cursor{Position: query[int64](t, pool, `SELECT last_value FROM tidemark.journal_position`), History: history}
}
