package journal_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/rapidtest"
)

func TestARepeatedAppendIsAnsweredWithTheFirstPlaces(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO tidemark.consumer_groups (name) VALUES ('g')")
	first, second := event.Event{ID: uuid.New(), Type: "noted", Tags: []string{"a"}},
		event.Event{ID: uuid.New(), Type: "noted"}
	was, err := appendTo(t.Context(), pool, "c", journal.None, first, second)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, pool, "c", noted(1)...)
	exec(t, pool, "DELETE FROM tidemark.outbox")

	for _, expect := range []journal.Expect{journal.None, journal.Any, journal.Exactly(2), journal.Exactly(77)} {
		again, err := appendTo(t.Context(), pool, "c", expect, second, first)
		if err != nil || len(again) != 2 {
			t.Fatalf("expecting %v: got %v, %v", expect, again, err)
		}
		for i, place := range again {
			want := was[1-i]
			want.Duplicate = true
			if place != want {
				t.Errorf("got %+v, want %+v", place, want)
			}
		}
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 3 {
		t.Errorf("repeating wrote %d events", n-3)
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.outbox"); n != 0 {
		t.Errorf("repeating wrote %d work items", n)
	}
	if other := mustAppend(t, pool, "other", first); other[0].Duplicate || other[0].Seq != 1 {
		t.Errorf("the same id in another campaign got %+v", other[0])
	}
}

// Ids that append makes have no row in the index of given ids: they end with the position.
func TestARepeatIsFoundByMadeAndByGivenIDs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "c", noted(1)...)
	mustAppend(t, pool, "c", noted(3)...)
	made := query[int64](t, pool, `SELECT count(*) FROM tidemark.journal
		WHERE right(event_id::text, 12) = lpad(to_hex(position), 12, '0')`)
	if made != 4 {
		t.Fatalf("%d of 4 made ids end with their position", made)
	}
	next := query[int64](t, pool, "SELECT last_value + 1 FROM tidemark.journal_position")
	given := map[string]uuid.UUID{
		"random":                      uuid.New(),
		"the nil id":                  uuid.Nil,
		"of a position yet to come":   at(next + 100),
		"of another event":            at(1),
		"of the position it will get": at(next + 2),
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] == uuid.Nil {
			exec(t, pool, `SELECT FROM tidemark.append('c',
				'[{"type": "noted", "id": "00000000-0000-0000-0000-000000000000"}]')`)
			continue
		}
		mustAppend(t, pool, "c", event.Event{ID: given[name], Type: "noted"})
	}
	all := query[[]string](t, pool, "SELECT array_agg(event_id::text) FROM tidemark.journal")
	for _, id := range all {
		repeat := fmt.Sprintf(`SELECT duplicate FROM tidemark.append('c', '[{"type": "noted", "id": "%s"}]')`, id)
		if !query[bool](t, pool, repeat) {
			t.Errorf("the event %s was appended again", id)
		}
	}
}

func TestOneOfManyAppendsOfAnIDIsWritten(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	e := event.Event{ID: uuid.New(), Type: "noted"}
	var g errgroup.Group
	for i := range 9 {
		level := []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable, pgx.ReadCommitted}[i%3]
		g.Go(func() error {
			for {
				if err := appendAt(t.Context(), pool, level, "c", e); !stale(err) {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 1 {
		t.Errorf("the event is there %d times", n)
	}
}

// at returns an id that ends with a position, as those that append makes.
func at(position int64) uuid.UUID {
	id := uuid.New()
	binary.BigEndian.PutUint16(id[10:], uint16(position>>32))
	binary.BigEndian.PutUint32(id[12:], uint32(position))
	return id
}

func TestAnIDIsRefusedForAnotherEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	was := event.Event{
		ID: uuid.New(), Type: "noted", Version: 2, Intent: event.ReplayOnly, AggregateType: "at", AggregateID: "ai",
		Actor: "me",
		Tags:  []string{"a", "b"}, Payload: json.RawMessage(`{"a": 1}`), Metadata: json.RawMessage(`{"b": 2}`),
		OccurredAt: time.Unix(1e9, 0),
	}
	mustAppend(t, pool, "c", was)
	for name, change := range map[string]func(*event.Event){
		"type":           func(e *event.Event) { e.Type = "other" },
		"version":        func(e *event.Event) { e.Version = 1 },
		"intent":         func(e *event.Event) { e.Intent = event.ProjectionAndReplay },
		"aggregate type": func(e *event.Event) { e.AggregateType = "" },
		"aggregate id":   func(e *event.Event) { e.AggregateID = "x" },
		"actor":          func(e *event.Event) { e.Actor = "you" },
		"tags":           func(e *event.Event) { e.Tags = nil },
		"order of tags":  func(e *event.Event) { e.Tags = []string{"b", "a"} },
		"payload":        func(e *event.Event) { e.Payload = json.RawMessage(`{"a": 2}`) },
		"metadata":       func(e *event.Event) { e.Metadata = nil },
		"time":           func(e *event.Event) { e.OccurredAt = e.OccurredAt.Add(time.Second) },
	} {
		e := was
		change(&e)
		if _, err := appendTo(t.Context(), pool, "c", journal.Any, e); !errors.Is(err, journal.ErrEventIDReused) {
			t.Errorf("another %s: got %v", name, err)
		}
	}
	fresh := event.Event{ID: uuid.New(), Type: "noted"}
	if _, err := appendTo(t.Context(), pool, "c", journal.Any, fresh, fresh); !errors.Is(err, journal.ErrEventIDReused) {
		t.Errorf("twice in one call: got %v", err)
	}
	if _, err := appendTo(t.Context(), pool, "c", journal.Any, was, fresh); !errors.Is(err, journal.ErrPartlyAppended) {
		t.Errorf("one old, one new: got %v", err)
	}
	if _, err := appendTo(t.Context(), pool, "c", journal.Any, was, event.Event{Type: "noted"}); !errors.Is(err,
		journal.ErrPartlyAppended) {
		t.Errorf("one old, one without id: got %v", err)
	}
	if n := query[int64](t, pool, "SELECT count(*) FROM tidemark.journal"); n != 1 {
		t.Errorf("the refused calls wrote %d events", n-1)
	}
	same := was
	same.Payload, same.Metadata = json.RawMessage("{\"a\":\t1.0}"), json.RawMessage(`{"b":3,"b":2}`) // equal as jsonb
	if places, err := appendTo(t.Context(), pool, "c", journal.Any, same); err != nil || !places[0].Duplicate {
		t.Errorf("written in another way: got %v, %v", places, err)
	}
}

// campaignModel models the content of a campaign.
type campaignModel struct {
	ids      []uuid.UUID
	payloads map[uuid.UUID]string
}

// answer returns what Append must return: the seqs, or the error.
func (m *campaignModel) answer(expect int64, events []event.Event) (seqs []int64, err error) {
	var old, changed, unsaid int
	given := map[uuid.UUID]bool{}
	for _, e := range events {
		if payload, ok := m.payloads[e.ID]; ok {
			old++
			if payload != string(e.Payload) {
				changed++
			}
			seqs = append(seqs, int64(slices.Index(m.ids, e.ID)+1))
		}
		if e.ID == uuid.Nil {
			unsaid++
		} else {
			given[e.ID] = true
		}
	}
	switch {
	case changed > 0:
		return nil, journal.ErrEventIDReused
	case old == len(events):
		return seqs, nil
	case old > 0:
		return nil, journal.ErrPartlyAppended
	case len(given)+unsaid < len(events):
		return nil, journal.ErrEventIDReused
	case expect >= 0 && expect != int64(len(m.ids)):
		return nil, journal.ErrVersionConflict
	}
	for i := range events {
		seqs = append(seqs, int64(len(m.ids)+i+1))
	}
	return seqs, nil
}

func (m *campaignModel) add(events []event.Event, places []journal.Appended) {
	for i, p := range places {
		if !p.Duplicate {
			m.ids = append(m.ids, p.ID)
			m.payloads[p.ID] = string(events[i].Payload)
		}
	}
}

func TestAppendDoesWhatAModelPredicts(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	rollback := errors.New("rolled back on purpose")
	runs := 0
	rapidtest.Check(t, 50, func(rt *rapid.T) {
		runs++
		campaign := fmt.Sprint("c", runs)
		model := campaignModel{payloads: map[uuid.UUID]string{}}
		for range rapid.IntRange(1, 8).Draw(rt, "calls") {
			events := drawEvents(rt, model.ids)
			expect, argument := int64(-1), journal.Any
			if rapid.IntRange(0, 2).Draw(rt, "checked") == 0 {
				expect = int64(rapid.IntRange(max(0, len(model.ids)-1), len(model.ids)+1).Draw(rt, "expect"))
				argument = journal.Exactly(expect)
			}
			keep := rapid.IntRange(0, 3).Draw(rt, "keep") > 0
			want, wantErr := model.answer(expect, events)
			places, err := appendAndMaybeKeep(t.Context(), pool, campaign, argument, events, keep, rollback)
			if !errors.Is(err, wantErr) {
				rt.Fatalf("got %v, want %v", err, wantErr)
			}
			var got []int64
			for _, p := range places {
				got = append(got, p.Seq)
			}
			if wantErr == nil && !slices.Equal(got, want) {
				rt.Fatalf("got seqs %v, want %v", got, want)
			}
			if keep && err == nil {
				model.add(events, places)
			}
		}
		var ids []uuid.UUID
		for e, err := range journal.ReadCampaign(t.Context(), pool, campaign, 0) {
			if err != nil {
				rt.Fatal(err)
			}
			ids = append(ids, e.ID)
			if e.Seq != int64(len(ids)) || string(e.Payload) != model.payloads[e.ID] {
				rt.Fatalf("got %+v as event %d", e, len(ids))
			}
		}
		if !slices.Equal(ids, model.ids) {
			rt.Fatalf("the campaign holds %v, want %v", ids, model.ids)
		}
	})
}

// drawEvents draws up to four new and old events. Some old ones have a payload that may differ from
// the stored one.
func drawEvents(t *rapid.T, old []uuid.UUID) []event.Event {
	events := make([]event.Event, rapid.IntRange(1, 4).Draw(t, "events"))
	for i := range events {
		e := event.Event{Type: "noted", Payload: json.RawMessage(`{"n": 1}`)}
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind < 4 && len(old) > 0:
			e.ID = rapid.SampledFrom(old).Draw(t, "old id")
		case kind == 4 && i > 0:
			e.ID = events[i-1].ID
		case kind < 8:
			e.ID = uuid.New()
		}
		if rapid.IntRange(0, 9).Draw(t, "other payload") == 0 {
			e.Payload = json.RawMessage(`{"n": 2}`)
		}
		events[i] = e
	}
	return events
}

func appendAndMaybeKeep(
	ctx context.Context, pool *pgxpool.Pool, campaign string, expect journal.Expect, events []event.Event, keep bool,
	rollback error,
) (places []journal.Appended, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if places, err = (journal.Journal{}).Append(ctx, tx, campaign, expect, events...); err == nil && !keep {
			return rollback
		}
		return err
	})
	if errors.Is(err, rollback) {
		err = nil
	}
	return places, err
}
