package dcb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// conflict checks that err names the event at the given place.
func conflict(t *testing.T, err error, at journal.Appended) {
	t.Helper()
	if !errors.Is(err, journal.ErrConditionFailed) ||
		!strings.HasPrefix(err.Error(), fmt.Sprintf("event %d of campaign %q (", at.Seq, at.CampaignID)) ||
		!strings.Contains(err.Error(), fmt.Sprintf(" at position %d, ", at.Position)) {
		t.Errorf("got %v, want a conflict with %+v", err, at)
	}
}

// A condition waits for appends in flight, then sees them. This detects a check before the lock, a
// check in the same statement as the lock (its snapshot is older), and writers that take no lock.
func TestAConditionWaitsForWhatItCannotSeeYet(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	for name, c := range map[string]struct {
		event event.Event
		query event.Query
	}{
		"tag":                  {newEvent("a", "opened", "x", "y"), event.Tagged([]string{"x"})},
		"tag and type":         {newEvent("a", "opened", "x", "y"), event.Tagged([]string{"x"}, "closed", "opened")},
		"two tags":             {newEvent("a", "opened", "x", "y"), event.Tagged([]string{"y", "x"}, "opened")},
		"type":                 {newEvent("a", "opened", "x", "y"), event.Types("opened")},
		"type of no tags":      {newEvent("a", "opened"), event.Types("closed", "opened")},
		"everything":           {newEvent("a", "opened", "x"), event.Query{}},
		"everything, no tags":  {newEvent("a", "opened"), event.Query{}},
		"the second of two":    {newEvent("a", "opened", "x"), event.Types("lost").Or(event.Tagged([]string{"x"}))},
		"conditions in flight": {newEvent("a", "opened", "x"), event.Tagged([]string{"x"})},
	} {
		condition := journal.Condition{FailIfMatch: c.query}
		floor, err := feed.Floor(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		condition.After = floor
		first := begin(t, pool, pgx.ReadCommitted)
		var place journal.Appended
		if name == "conditions in flight" {
			places, err := journal.Journal{}.AppendIf(t.Context(), first, []event.Event{c.event}, condition)
			if err != nil {
				t.Fatal(err)
			}
			place = places[0]
		} else {
			place = write(t, first, c.event)[0]
		}
		result := blocked(t, pool, condition, newEvent("b", "decided", "z"))
		commit(t, first)
		t.Run(name, func(t *testing.T) { conflict(t, result(), place) })
	}
}

// Appends that start after a condition's check wait until the decision is in the journal.
func TestWritersWaitForADecisionInFlight(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	deciding := begin(t, pool, pgx.ReadCommitted)
	decided, err := journal.Journal{}.AppendIf(t.Context(), deciding, []event.Event{newEvent("a", "opened", "z")},
		journal.Condition{FailIfMatch: event.Tagged([]string{"x"}, "closed")})
	if err != nil {
		t.Fatal(err)
	}
	// Events that the condition does not select.
	written(t, pool, newEvent("b", "opened", "x"), newEvent("b", "closed", "y"), newEvent("b", "closed"))
	result := blocked(t, pool, journal.Condition{FailIfMatch: event.Types("never")}, newEvent("c", "closed", "x"))
	commit(t, deciding)
	if err := result(); err != nil {
		t.Fatal(err)
	}
	last, err := journal.Get(t.Context(), pool, "c", 1)
	if err != nil || last.Position < decided[0].Position {
		t.Errorf("the event that waited has position %d, the decision %d, %v", last.Position, decided[0].Position, err)
	}
}

// Two queries that overlap in one event conflict, however different they look. This detects a lock
// on a hash of the whole query.
func TestOverlappingQueriesMeet(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	queries := []event.Query{
		event.Tagged([]string{"x"}), event.Tagged([]string{"y"}, "opened"), event.Tagged([]string{"x", "y"}),
		event.Tagged([]string{"y", "x"}, "opened", "closed"), event.Types("opened"),
		{},
	}
	for i, one := range queries {
		for j, other := range queries {
			floor, err := feed.Floor(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			first := begin(t, pool, pgx.ReadCommitted)
			places, err := journal.Journal{}.AppendIf(t.Context(), first, []event.Event{newEvent(fmt.Sprint(i, j), "opened", "x", "y")},
				journal.Condition{FailIfMatch: one, After: floor})
			if err != nil {
				t.Fatal(err)
			}
			result := blocked(t, pool, journal.Condition{FailIfMatch: other, After: floor}, newEvent("other", "opened", "x", "y"))
			commit(t, first)
			conflict(t, result(), places[0])
		}
	}
}

// An earlier position that commits later is not missed by the decision.
func TestADecisionDoesNotPassALowerPositionInFlight(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	query := event.Tagged([]string{"x"})
	slow := begin(t, pool, pgx.ReadCommitted)
	lower := write(t, slow, newEvent("a", "opened", "x"))[0]
	higher := written(t, pool, newEvent("b", "opened", "x"))[0]

	if events, err := journal.Read(t.Context(), pool, query, 0, 10); err != nil || len(events) != 0 {
		t.Errorf("read %d events, %v: there is one below in flight", len(events), err)
	}
	seen, condition, err := journal.Decide(t.Context(), pool, query, positions)
	if err != nil || len(seen) != 1 || seen[0] != higher.Position || condition.After >= lower.Position {
		t.Errorf("decided by %v after %d, %v", seen, condition.After, err)
	}
	unrelated, other, err := journal.Decide(t.Context(), pool, event.Types("closed"), positions)
	if err != nil || len(unrelated) != 0 {
		t.Errorf("decided by %v, %v", unrelated, err)
	}
	if err := appendIf(t.Context(), pool, other, newEvent("c", "closed")); err != nil {
		t.Errorf("a decision that the append in flight does not concern: %v", err)
	}
	commit(t, slow)
	conflict(t, appendIf(t.Context(), pool, condition, newEvent("c", "opened", "x")), lower)
	seen, condition, err = journal.Decide(t.Context(), pool, query, positions)
	if err != nil || len(seen) != 2 {
		t.Fatalf("decided by %v, %v", seen, err)
	}
	if err := appendIf(t.Context(), pool, condition, newEvent("c", "opened", "x")); err != nil {
		t.Error(err)
	}
}

// An unrelated open append does not delay decisions on events that were just written.
func TestAnUnrelatedAppendInFlightHoldsNoDecisionUp(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	write(t, begin(t, pool, pgx.ReadCommitted), newEvent("import", "imported", "bulk"))
	for n := range 5 {
		seen, condition, err := journal.Decide(t.Context(), pool, event.Tagged([]string{"x"}), positions)
		if err != nil || len(seen) != n {
			t.Fatalf("decided by %v, %v", seen, err)
		}
		if err := appendIf(t.Context(), pool, condition, newEvent("a", "opened", "x")); err != nil {
			t.Fatal(err)
		}
	}
}

// An open foreign transaction, older than everything else, hides nothing and delays nothing. This
// detects a horizon taken from the oldest transaction.
func TestAForeignOpenTransactionChangesNothing(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	foreign := begin(t, pool, pgx.RepeatableRead)
	for _, statement := range []string{
		"CREATE TABLE foreigners (n int)",
		"SELECT pg_advisory_xact_lock(1), pg_advisory_xact_lock_shared(2)",
	} {
		if _, err := foreign.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	place := written(t, pool, newEvent("a", "opened", "x"))[0]
	conflict(t, appendIf(t.Context(), pool, journal.Condition{FailIfMatch: event.Tagged([]string{"x"})},
		newEvent("b", "opened", "x")), place)
	seen, condition, err := journal.Decide(t.Context(), pool, event.Tagged([]string{"x"}), positions)
	if err != nil || len(seen) != 1 || condition.After < place.Position {
		t.Fatalf("decided by %v after %d, %v", seen, condition.After, err)
	}
	if err := appendIf(t.Context(), pool, condition, newEvent("b", "opened", "x")); err != nil {
		t.Error(err)
	}
}

// An import with more tags than locks takes few locks, conflicts with conditions all the same, and
// does not delay writers without a condition.
func TestAnImportTakesFewLocksAndMeetsConditions(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	for _, query := range []event.Query{
		event.Tagged([]string{"tag 19 99"}),
		event.Tagged([]string{"tag 19 99"}, "type99"),
	} {
		floor, err := feed.Floor(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		importing := begin(t, pool, pgx.ReadCommitted)
		for call := range 20 {
			var events []event.Event
			for n := range 100 {
				events = append(events, event.Event{
					Type: fmt.Sprint("type", n),
					Tags: []string{fmt.Sprintf("tag %d %d", call, n), fmt.Sprintf("other %d %d", call, n)},
				})
			}
			if _, err := (journal.Journal{}).Append(t.Context(), importing, "import", journal.Any, events...); err != nil {
				t.Fatal(err)
			}
		}
		fewLocks(t, importing, 1)
		result := blocked(t, pool, journal.Condition{FailIfMatch: query, After: floor}, newEvent("a", "opened", "x"))
		commit(t, importing)
		if err := result(); !errors.Is(err, journal.ErrConditionFailed) ||
			!strings.Contains(err.Error(), `of campaign "import" (`) {
			t.Errorf("%+v: %v", query, err)
		}
	}
}

// fewLocks checks that the transaction holds few advisory locks: at most one for each campaign and
// bucket, and some more.
func fewLocks(t *testing.T, tx pgx.Tx, campaigns int) {
	t.Helper()
	var locks int
	if err := tx.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'").Scan(&locks); err != nil ||
		locks > 300+campaigns {
		t.Errorf("%d locks, %v", locks, err)
	}
}

// Many conditions in one transaction take few locks too.
func TestManyConditionsInOneTransactionTakeFewLocks(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	deciding := begin(t, pool, pgx.ReadCommitted)
	for n := range 200 {
		query := event.Tagged([]string{fmt.Sprint("mine ", n)}, "taken")
		if _, err := (journal.Journal{}).AppendIf(t.Context(), deciding, []event.Event{newEvent("mine", "noted", fmt.Sprint("mine ", n))},
			journal.Condition{FailIfMatch: query}); err != nil {
			t.Fatal(err)
		}
	}
	fewLocks(t, deciding, 1)
	commit(t, deciding)
}

// An import delays no writer without a condition.
func TestAnImportHoldsUpNoOtherWriter(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	importing := begin(t, pool, pgx.ReadCommitted)
	var events []event.Event
	for n := range 300 {
		events = append(events, newEvent("import", "noted", fmt.Sprint("tag", n)))
	}
	if _, err := (journal.Journal{}).Append(t.Context(), importing, "import", journal.Any, events...); err != nil {
		t.Fatal(err)
	}
	written(t, pool, newEvent("a", "noted", "tag7"), newEvent("b", "opened", "x"), newEvent("c", "noted"))
	commit(t, importing)
}

// A condition with more terms than locks takes few locks. It conflicts with appends that its terms
// select, in flight or after the check.
func TestALongConditionTakesFewLocksAndMeetsAppends(t *testing.T) {
	t.Parallel()
	pool := open(t, 6)
	var long event.Query
	for n := range 200 {
		long.Items = append(long.Items, event.Item{
			Types: []string{"opened", "closed"},
			Tags:  []string{fmt.Sprint("tag ", n)},
		})
	}
	first := begin(t, pool, pgx.ReadCommitted)
	place := write(t, first, newEvent("a", "closed", "tag 150"))[0]
	result := blocked(t, pool, journal.Condition{FailIfMatch: long}, newEvent("b", "decided", "z"))
	commit(t, first)
	conflict(t, result(), place)

	deciding := begin(t, pool, pgx.ReadCommitted)
	imported := make([]event.Event, 0, 900)
	for n := range cap(imported) {
		imported = append(imported, newEvent(fmt.Sprint("import ", n), "noted", fmt.Sprint("mine ", n), "mine"))
	}
	if _, err := (journal.Journal{}).AppendIf(t.Context(), deciding, imported,
		journal.Condition{FailIfMatch: long, After: place.Position}); err != nil {
		t.Fatal(err)
	}
	fewLocks(t, deciding, len(imported))
	held := blocked(t, pool, journal.Condition{FailIfMatch: event.Types("never")}, newEvent("c", "opened", "tag 150"))
	commit(t, deciding)
	if err := held(); err != nil {
		t.Error(err)
	}
}
