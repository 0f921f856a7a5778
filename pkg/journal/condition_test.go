package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// tagged returns an event of a campaign.
func tagged(campaign, eventType string, tags ...string) event.Event {
	return event.Event{CampaignID: campaign, Type: eventType, Tags: tags}
}

// appendIf appends under a condition in a transaction of its own.
func appendIf(
	ctx context.Context, pool *pgxpool.Pool, condition journal.Condition, events ...event.Event,
) (places []journal.Appended, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		places, err = journal.Journal{}.AppendIf(ctx, tx, events, condition)
		return err
	})
	return places, err
}

// always returns a condition that holds: no event of these tests matches its query.
func always() journal.Condition { return journal.Condition{FailIfMatch: event.Types("never")} }

// mustAppendIf appends under a condition that must hold.
func mustAppendIf(
	t *testing.T, pool *pgxpool.Pool, condition journal.Condition, events ...event.Event,
) []journal.Appended {
	t.Helper()
	places, err := appendIf(t.Context(), pool, condition, events...)
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// sqlState returns the SQLSTATE of an error, or "".
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

func TestAConditionFailsWhenAnEventPastItMatches(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	places := mustAppendIf(t, pool, always(), tagged("a", "opened", "x", "y"), tagged("b", "opened", "x"),
		tagged("a", "closed", "y"), tagged("c", "noted"))
	if len(places) != 4 || places[2].CampaignID != "a" || places[2].Seq != 2 ||
		places[3].Position != places[0].Position+3 {
		t.Fatalf("places %+v", places)
	}
	for name, c := range map[string]struct {
		query    event.Query
		after    int // index of the event whose position is After; -1: none
		conflict int // index of the conflicting event; -1: the condition holds
		item     int
	}{
		"everything":                       {event.Query{}, -1, 0, 0},
		"everything, all known":            {event.Query{}, 3, -1, 0},
		"a type":                           {event.Types("closed"), -1, 2, 0},
		"a type without tags":              {event.Types("noted"), 2, 3, 0},
		"a type that is not there":         {event.Types("lost"), -1, -1, 0},
		"a type, known":                    {event.Types("opened"), 1, -1, 0},
		"a tag":                            {event.Tagged([]string{"y"}), -1, 0, 0},
		"a tag, past the first":            {event.Tagged([]string{"y"}), 0, 2, 0},
		"a tag, all known":                 {event.Tagged([]string{"y"}), 2, -1, 0},
		"a tag and a type":                 {event.Tagged([]string{"y"}, "closed"), -1, 2, 0},
		"a tag and another type":           {event.Tagged([]string{"x"}, "closed"), -1, -1, 0},
		"a tag and several types":          {event.Tagged([]string{"y"}, "noted", "closed", "opened"), 0, 2, 0},
		"two tags":                         {event.Tagged([]string{"y", "x"}), -1, 0, 0},
		"two tags, known":                  {event.Tagged([]string{"x", "y"}), 0, -1, 0},
		"two tags, one of them nowhere":    {event.Tagged([]string{"x", "z"}), -1, -1, 0},
		"the same tag twice":               {event.Tagged([]string{"x", "x"}), -1, 0, 0},
		"a second item":                    {event.Types("lost").Or(event.Tagged([]string{"y"}, "closed")), -1, 2, 1},
		"the first of two items":           {event.Types("noted").Or(event.Types("opened")), -1, 0, 1},
		"an item of nothing is everything": {event.Query{Items: []event.Item{{}}}, 2, 3, 0},
	} {
		condition := journal.Condition{FailIfMatch: c.query}
		if c.after >= 0 {
			condition.After = places[c.after].Position
		}
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = journal.Journal{}.AppendIf(t.Context(), tx, []event.Event{tagged("d", "new", "new")}, condition)
		if rollback := tx.Rollback(t.Context()); rollback != nil {
			t.Fatal(rollback)
		}
		switch {
		case c.conflict < 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.conflict < 0:
		case !errors.Is(err, journal.ErrConditionFailed):
			t.Errorf("%s: got %v", name, err)
		default:
			place := places[c.conflict]
			eventType := []string{"opened", "opened", "closed", "noted"}[c.conflict]
			if want := fmt.Sprintf("event %d of campaign %q (%q) at position %d, past %d, matches item %d of the condition: ",
				place.Seq, place.CampaignID, eventType, place.Position, condition.After,
				c.item); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 4 {
		t.Errorf("%d events", n)
	}
}

func TestAConditionalAppendIsRepeatedSafely(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first, second := tagged("a", "opened", "x"), tagged("b", "opened", "x")
	first.ID, second.ID = uuid.New(), uuid.New()
	once := journal.Condition{FailIfMatch: event.Tagged([]string{"x"})}
	places := mustAppendIf(t, pool, once, first, second)
	again := mustAppendIf(t, pool, once, first, second)
	for i := range places {
		places[i].Duplicate = true
		if again[i] != places[i] {
			t.Errorf("repeated: %+v, at first %+v", again[i], places[i])
		}
	}
	third := tagged("c", "opened", "z")
	third.ID = uuid.New()
	if _, err := appendIf(t.Context(), pool, once, first, third); !errors.Is(err, journal.ErrPartlyAppended) {
		t.Errorf("one campaign's event is there, the other's is new: %v", err)
	}
	first.Type = "closed"
	if _, err := appendIf(t.Context(), pool, once, first, second); !errors.Is(err, journal.ErrEventIDReused) {
		t.Errorf("another content: %v", err)
	}
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 2 {
		t.Errorf("%d events", n)
	}
}

func TestAppendIfSQLDoesWhatAppendIfDoes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	once := journal.Condition{FailIfMatch: event.Tagged([]string{"x"})}
	for n := range 2 {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		places, err := journal.Journal{}.AppendIf(t.Context(), journal.SQL(tx),
			[]event.Event{tagged("a", "opened", "x"), tagged("b", "opened", "x")}, once)
		if n == 0 {
			if err != nil || len(places) != 2 || places[1].CampaignID != "b" || places[1].ID == uuid.Nil {
				t.Errorf("got %+v, %v", places, err)
			}
			err = tx.Commit()
		} else {
			if !errors.Is(err, journal.ErrConditionFailed) || !strings.Contains(err.Error(), `of campaign "a" (`) {
				t.Errorf("got %v", err)
			}
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	e := tagged("a", "opened")
	var invalid *journal.InvalidEventError
	if _, err := appendIf(t.Context(), pool, journal.Condition{FailIfMatch: event.Tagged([]string{"x", ""})},
		e); !errors.Is(err, event.ErrInvalidQuery) || !strings.Contains(err.Error(), "items[0].tags[1] ") {
		t.Errorf("an empty tag: %v", err)
	}
	if _, err := appendIf(t.Context(), pool, always()); !errors.As(err, &invalid) {
		t.Errorf("no events: %v", err)
	}
	if _, err := appendIf(t.Context(), pool, always(), tagged("", "opened")); !errors.As(err, &invalid) {
		t.Errorf("no campaign: %v", err)
	}
	if _, err := journal.DecideAll(t.Context(), pool); err == nil {
		t.Error("no models")
	}
	for _, condition := range []string{
		`null`, `[]`, `{}`, `{"after": 1}`, `{"failIfEventsMatch": null}`, `{"failIfEventsMatch": {}}`,
		`{"failIfEventsMatch": {"items": {}}}`, `{"failIfEventsMatch": {"items": ["x"]}}`,
		`{"failIfEventsMatch": {"items": [{"tag": ["x"]}]}}`, `{"failIfEventsMatch": {"items": [{"tags": "x"}]}}`,
		`{"failIfEventsMatch": {"items": [{"types": [1]}]}}`,
		`{"failIfEventsMatch": {"items": [{"types": [""]}]}}`, `{"failIfEventsMatch": {"items": [[]]}}`,
		`{"failIfEventsMatch": {"items": [{"types": ["a"], "tags": [""]}]}}`,
		`{"failIfEventsMatch": {"items": [{"types": ["a"], "tags": [1]}]}}`,
		`{"failIfEventsMatch": {"items": [{"types": ["a"], "tags": ["x"], "more": 1}]}}`,
		`{"failIfEventsMatch": {"items": [{"types": ["a"], "tags": ["x"]}], "more": 1}}`,
		`{"failIfEventsMatch": {"items": [], "more": 1}}`, `{"failIfEventsMatch": {"items": []}, "afther": 1}`,
	} {
		_, err := pool.Exec(t.Context(),
			`SELECT * FROM tidemark.append_if('[{"campaign_id": "a", "events": [{"type": "opened"}]}]', $1::jsonb)`, condition)
		if sqlState(err) != "TM004" {
			t.Errorf("%s: %v", condition, err)
		}
	}
	for _, batches := range []string{
		`[]`, `{}`, `[{"campaign_id": "a", "events": []}]`,
		`[{"events": [{"type": "opened"}]}]`, `[{"campaign_id": "a", "events": [{"type": ""}]}]`,
	} {
		_, err := pool.Exec(t.Context(), `SELECT * FROM tidemark.append_if($1::jsonb,
			'{"failIfEventsMatch": {"items": [{"types": ["never"]}]}}')`, batches)
		if sqlState(err) != "TM004" {
			t.Errorf("%s: %v", batches, err)
		}
	}
}

// A position above the last one is refused: an event that gets it later would escape the condition.
func TestAConditionThatKnowsWhatHasNotHappenedIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	query := event.Tagged([]string{"x"}, "opened")
	known := func(err error, position, last int64) bool {
		return errors.Is(err, journal.ErrInvalidCondition) && strings.Contains(err.Error(),
			fmt.Sprintf("knows position %d, the journal goes from 1 to %d:", position, last))
	}
	if _, err := appendIf(t.Context(), pool, journal.Condition{FailIfMatch: query, After: 1},
		tagged("a", "opened", "x")); !known(err, 1, 0) {
		t.Errorf("nothing has happened: %v", err)
	}
	last := mustAppendIf(t, pool, journal.Condition{FailIfMatch: query}, tagged("a", "opened", "x"))[0].Position
	for _, q := range []event.Query{query, event.Types("opened"), {}} { // each kind of lookup
		for _, after := range []int64{last + 1, last + 1_000_000, math.MaxInt64, -1} {
			_, err := appendIf(t.Context(), pool, journal.Condition{FailIfMatch: q, After: after}, tagged("a", "opened", "x"))
			if !known(err, after, last) {
				t.Errorf("%+v after %d of %d: %v", q, after, last, err)
			}
		}
		mustAppendIf(t, pool, journal.Condition{FailIfMatch: q, After: last}, tagged("b", "noted"))
		last++
	}
	for _, condition := range []string{
		`{"failIfEventsMatch": {"items": []}, "after": 1000}`,
		`{"failIfEventsMatch": {"items": []}, "after": 1, "seen": [2, 1000, 3]}`,
	} {
		_, err := pool.Exec(t.Context(),
			`SELECT * FROM tidemark.append_if('[{"campaign_id": "a", "events": [{"type": "opened"}]}]', $1::jsonb)`, condition)
		if sqlState(err) != "TM004" || !strings.Contains(err.Error(), "position 1000") {
			t.Errorf("%s: %v", condition, err)
		}
	}
	attempts := 0
	_, err := journal.Journal{}.CommitIf(t.Context(), pool,
		func(context.Context, event.Querier) ([]event.Event, journal.Condition, error) {
			attempts++
			return []event.Event{tagged("a", "opened")}, journal.Condition{FailIfMatch: query, After: 1000}, nil
		})
	if !errors.Is(err, journal.ErrInvalidCondition) || attempts != 1 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}

// Other languages read the SQLSTATE and the detail of tidemark.append_if, as
// docs/guides/conditions.md shows.
func TestTheSQLFunctionNamesWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	place := mustAppendIf(t, pool, always(), tagged("a", "opened", "x", "y"))[0]
	for _, items := range []string{
		`[{"types": ["lost"]}, {"types": ["opened"], "tags": ["x"]}]`,
		`[{"tags": ["lost"], "types": ["opened"]}, {"tags": ["y"], "types": ["closed", "opened"]}]`,
	} {
		_, err := pool.Exec(t.Context(),
			`SELECT * FROM tidemark.append_if('[{"campaign_id": "b", "events": [{"type": "opened"}]}]', $1::jsonb)`,
			`{"failIfEventsMatch": {"items": `+items+`}}`)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "TM020" {
			t.Fatalf("%s: %v", items, err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(pgErr.Detail), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"position": float64(place.Position), "campaign": "a", "seq": 1.0, "type": "opened",
			"item": 1.0, "after": 0.0,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", items, got, want)
		}
	}
}
