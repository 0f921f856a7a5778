package projector_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestADocumentIsReadIntoItsType(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	byKey := projection.Document[counter]{
		Name: "by_key", Version: 1, Types: []string{"moved"}, Schema: "views of mine",
		Key:  func(e event.Event) (string, error) { return e.AggregateID, nil },
		Fold: func(c *counter, _ event.Event) error { c.Count++; return nil },
	}
	alone := projection.Document[string]{ // pgx would scan this type as stored, with its quotes
		Name: "alone", Version: 1, Types: []string{"moved"}, Schema: "views of mine",
		Fold: func(s *string, e event.Event) error { *s += e.AggregateID; return nil },
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, event.Event{Type: "moved", AggregateID: "a"},
			event.Event{Type: "moved", AggregateID: "b"}, event.Event{Type: "moved", AggregateID: "a"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{
		Pool: pool, Schema: "views of mine",
		Projections: []projection.Projection{byKey, alone},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}

	if c, found, err := byKey.GetKey(t.Context(), pool, "c", "a"); err != nil || !found || c.Count != 2 {
		t.Errorf("document a: %+v, found %t, %v; want a count of 2", c, found, err)
	}
	if s, found, err := alone.Get(t.Context(), pool, "c"); err != nil || !found || s != "aba" {
		t.Errorf("the campaign's document: %q, found %t, %v; want aba", s, found, err)
	}
	for _, missing := range [][2]string{{"c", "z"}, {"z", "a"}} {
		if c, found, err := byKey.GetKey(t.Context(), pool, missing[0], missing[1]); err != nil || found || c != (counter{}) {
			t.Errorf("document %q: %+v, found %t, %v; want none", missing, c, found, err)
		}
	}
	byKey.Schema = ""
	if _, _, err := byKey.GetKey(t.Context(), pool, "c", "a"); err == nil || !strings.Contains(err.Error(),
		`from "tidemark_views"."by_key"`) {
		t.Errorf("of a schema without the table: %v", err)
	}
}
