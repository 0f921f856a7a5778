package journal_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestEventsNameTheirCauseAndTheFirstOfAll(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx := t.Context()
	add := func(e event.Event) event.Event {
		t.Helper()
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, "a", journal.Any, e)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		last, err := journal.Last(ctx, pool, "a")
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	first := add(event.Event{Type: "placed"})
	if first.CorrelationID() != "" || first.CausationID() != "" {
		t.Errorf("an event without a cause has %s", first.Metadata)
	}
	ctx = journal.WithCause(ctx, first)
	second := add(event.Event{Type: "paid", Metadata: []byte(`{"ip": "::1"}`)})
	ctx = journal.WithCause(ctx, second)
	third := add(event.Event{Type: "sent"})
	own := add(event.Event{Type: "sent", Metadata: []byte(`{"correlation_id": "mine", "causation_id": "too"}`)})
	for _, c := range []struct {
		e                      event.Event
		correlation, causation string
	}{
		{second, first.Identity(), first.Identity()},
		{third, first.Identity(), second.Identity()},
		{own, "mine", "too"},
	} {
		if c.e.CorrelationID() != c.correlation || c.e.CausationID() != c.causation {
			t.Errorf("%s has %s, want %s and %s", c.e.Type, c.e.Metadata, c.correlation, c.causation)
		}
	}
	places, err := appendIf(ctx, pool, journal.Condition{FailIfMatch: event.Types("never")},
		event.Event{CampaignID: "b", Type: "noted"})
	if err != nil {
		t.Fatal(err)
	}
	noted, err := journal.Get(ctx, pool, "b", places[0].Seq)
	if err != nil || noted.CausationID() != second.Identity() {
		t.Errorf("an event on a condition has %s, %v", noted.Metadata, err)
	}
}

func TestLoadFoldsACampaignToItsLastSeq(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx := t.Context()
	if state, seq, err := journal.Load(ctx, pool, "a", count); state != 0 || seq != 0 || err != nil {
		t.Errorf("of no events %d at %d, %v", state, seq, err)
	}
	add := func(expect journal.Expect) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, "a", expect, noted(2)...)
			return err
		})
	}
	if err := add(journal.None); err != nil {
		t.Fatal(err)
	}
	state, seq, err := journal.Load(ctx, pool, "a", count)
	if state != 2 || seq != 2 || err != nil {
		t.Errorf("%d at %d, %v", state, seq, err)
	}
	if err := add(journal.Exactly(seq)); err != nil {
		t.Fatal(err)
	}
	if err := add(journal.Exactly(seq)); !errors.Is(err, journal.ErrVersionConflict) {
		t.Errorf("others got ahead: %v", err)
	}
	refused := errors.New("refused")
	_, _, err = journal.Load(ctx, pool, "a", func(*int, event.Event) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
