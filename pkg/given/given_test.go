package given_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/given"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

type sale struct {
	Article string
	Amount  int
}

const (
	delivered event.Type[sale] = "delivered"
	sold      event.Type[sale] = "sold"
)

// An event gets what an append and a read would give it.
func ExampleJournal_Append() {
	var j given.Journal
	j.Append("order-1", sold.New(sale{"tea", 2}))
	events := j.Append("order-2", sold.New(sale{"tea", 1}), sold.New(sale{"cups", 6}))
	for _, e := range events {
		fmt.Println(e.CampaignID, e.Seq, e.Position, string(e.Payload))
	}
	// Output:
	// order-2 1 2 {"Article":"tea","Amount":1}
	// order-2 2 3 {"Article":"cups","Amount":6}
}

// A decision is tested by the state that it reads.
func ExampleState() {
	var j given.Journal
	j.Append("stock", delivered.New(sale{"tea", 3}))
	tea := sold.New(sale{"tea", 2})
	tea.Tags = []string{"article=tea"}
	j.Append("order-1", tea)
	sales, err := given.State(j.Events(), event.Tagged([]string{"article=tea"}, string(sold)),
		func(n *int, e event.Event) error {
			s, err := sold.Decode(e)
			*n += s.Amount
			return err
		})
	fmt.Println(sales, err)
	// Output: 2 <nil>
}

func stock() projection.Document[int] {
	return projection.Document[int]{
		Name: "stock", Version: 1, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) {
			s, err := event.Decode[sale](e)
			return s.Article, err
		},
		On: event.Folds[int]{
			event.On(delivered, func(n *int, _ event.Event, s sale) error { *n += s.Amount; return nil }),
			event.On(sold, func(n *int, _ event.Event, s sale) error { *n -= s.Amount; return nil }),
		},
	}
}

// Given these events, then these documents.
func ExampleDocuments() {
	var j given.Journal
	j.Append("supplier", delivered.New(sale{"tea", 10}))
	j.Append("order-1", sold.New(sale{"tea", 2}))
	docs, err := given.Documents(stock(), j.Events())
	fmt.Println(docs[given.Key{Key: "tea"}], err)
	// Output: 8 <nil>
}

// Given these events, then the process does this.
func ExampleReactions() {
	reorder := projection.Process[int]{
		Name: "reorder", Version: 1, Key: stock().Key, On: stock().On,
		React: []projection.Reaction[int]{
			projection.React(sold, func(n *int, _ event.Event, _ sale) ([]projection.Do, error) {
				if *n >= 0 {
					return nil, nil
				}
				return []projection.Do{{Campaign: "purchases", Events: []event.Event{{Type: "ordered"}}}}, nil
			}),
		},
	}
	var j given.Journal
	j.Append("supplier", delivered.New(sale{"tea", 1}))
	j.Append("order-1", sold.New(sale{"tea", 3}))
	todo, states, err := given.Reactions(reorder, j.Events())
	fmt.Println(len(todo), todo[0].Campaign, todo[0].Events[0].Type, states["tea"], err)
	// Output: 1 purchases ordered -2 <nil>
}

// Given these events, then the projection queues these statements.
func ExampleStatements() {
	sales := projection.Handlers{
		Name: "sales", Version: 1, Tables: "CREATE TABLE sales (campaign_id text, article text, amount int)",
		On: []projection.Handler{
			projection.Handle(sold, func(_ context.Context, g *projection.Group, e event.Event, s sale) error {
				g.Queue("INSERT INTO sales VALUES ($1, $2, $3)", e.CampaignID, s.Article, s.Amount)
				return nil
			}),
		},
	}
	var j given.Journal
	j.Append("order-1", delivered.New(sale{"tea", 1}), sold.New(sale{"tea", 3}))
	statements, err := given.Statements(sales, j.Events())
	fmt.Println(statements, err)
	// Output: [{INSERT INTO sales VALUES ($1, $2, $3) [order-1 tea 3]}] <nil>
}

func TestAnEventIsAsItIsRead(t *testing.T) {
	t.Parallel()
	var j given.Journal
	at := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	j.Append("a", event.Event{Type: "x"})
	e := j.Append("a", event.Event{Type: "x", OccurredAt: at, Intent: event.AuditOnly, Version: 3})[0]
	if e.Seq != 2 || e.Position != 2 || !e.OccurredAt.Equal(at) || e.RecordedAt.IsZero() || e.Version != 3 ||
		e.Intent != event.AuditOnly || string(e.Payload) != "{}" || e.ID == j.Events()[0].ID || e.ID.Version() != 8 {
		t.Errorf("got %+v", e)
	}
	first := j.Events()[0]
	if first.Version != 1 || first.Intent != event.ProjectionAndReplay || !first.OccurredAt.Equal(first.RecordedAt) {
		t.Errorf("got %+v", first)
	}
	j.Events()[0].CampaignID = "b"
	if j.Events()[0].CampaignID != "a" {
		t.Error("a caller changed the journal")
	}
}

func TestEventsThatWorkersDoNotPassOnAreLeftOut(t *testing.T) {
	t.Parallel()
	var j given.Journal
	audited := sold.New(sale{"tea", 5})
	audited.Intent = event.AuditOnly
	j.Append("a", audited, event.Event{Type: "other"}, sold.New(sale{"", 5}), delivered.New(sale{"tea", 1}))
	docs, err := given.Documents(stock(), j.Events())
	if err != nil || len(docs) != 1 || docs[given.Key{Key: "tea"}] != 1 {
		t.Errorf("got %v, %v", docs, err)
	}
}

func TestAnErrorNamesTheEvent(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", sold.New(sale{"tea", 5}), event.Event{Type: "sold", Payload: []byte(`[]`)})
	_, err := given.Documents(stock(), j.Events())
	const want = `event 2 of campaign "a" (sold): `
	if err == nil || err.Error()[:len(want)] != want {
		t.Errorf("got %v", err)
	}
	reads := projection.Handlers{Name: "reads", Version: 1, On: []projection.Handler{
		projection.Handle(sold, func(ctx context.Context, g *projection.Group, _ event.Event, _ sale) error {
			_, err := g.Tx(ctx)
			return err
		}),
	}}
	if _, err := given.Statements(reads, j.Events()); !errors.Is(err, given.ErrNoDatabase) {
		t.Errorf("got %v", err)
	}
}

func TestWhatCannotWorkIsNamed(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", sold.New(sale{"tea", 5}))
	empty := projection.Document[int]{Name: "empty", Version: 1, Types: []string{"sold"}}
	if _, err := given.Documents(empty, j.Events()); err == nil {
		t.Error("a document without a fold is folded")
	}
	none := projection.Process[int]{Name: "none", Version: 1, Key: stock().Key, On: stock().On}
	if _, _, err := given.Reactions(none, j.Events()); err == nil {
		t.Error("a process without a reaction reacts")
	}
	if _, err := given.Statements(stock(), j.Events()); !errors.Is(err, given.ErrNoDatabase) {
		t.Errorf("the statements of a document, which reads before it writes: %v", err)
	}
	twice := projection.Handlers{Name: "twice", Version: 1, On: make([]projection.Handler, 1)}
	if _, err := given.Statements(twice, j.Events()); err == nil {
		t.Error("a handler without a function is called")
	}
}
