package projection_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/given"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

type order struct{ Total, Paid int }

const (
	placed    event.Type[order] = "placed"
	paid      event.Type[order] = "paid"
	cancelled event.Type[order] = "cancelled"
)

func orders() projection.Document[order] {
	return projection.Document[order]{
		Name: "orders", Version: 1,
		On: event.Folds[order]{
			event.On(placed, func(o *order, _ event.Event, p order) error {
				o.Total += p.Total
				return nil
			}),
			event.On(cancelled, func(*order, event.Event, order) error { return event.Delete }),
		},
	}
}

func TestADocumentFoldsTypesByTheirFunctionsAndTheRestByFold(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", placed.New(order{Total: 3}), paid.New(order{Paid: 2}))
	j.Append("b", placed.New(order{Total: 5}), cancelled.New(order{}))
	j.Append("c", cancelled.New(order{}), placed.New(order{Total: 7}))
	some := orders()
	if types := strings.Join(some.Spec().Types, " "); types != "cancelled placed" {
		t.Errorf("it wants %q", types)
	}
	if docs, err := given.Documents(some, j.Events()); err != nil || len(docs) != 2 ||
		docs[given.Key{Campaign: "a"}] != (order{Total: 3}) || docs[given.Key{Campaign: "c"}] != (order{Total: 7}) {
		t.Errorf("got %v, %v", docs, err)
	}
	all := orders()
	all.Fold = func(o *order, e event.Event) error {
		if e.Type != string(paid) {
			t.Errorf("Fold gets an event of the type %s, which has a function", e.Type)
		}
		o.Paid++
		return nil
	}
	if types := all.Spec().Types; types != nil {
		t.Errorf("with Fold it wants %q, not all", types)
	}
	all.Types = []string{"paid"}
	if types := strings.Join(all.Spec().Types, " "); types != "cancelled paid placed" {
		t.Errorf("it wants %q", types)
	}
	if docs, err := given.Documents(all, j.Events()); err != nil || docs[given.Key{Campaign: "a"}] != (order{3, 1}) {
		t.Errorf("got %v, %v", docs, err)
	}
}

func TestAPayloadThatDoesNotFitItsTypeIsAnError(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", event.Event{Type: "placed", Payload: []byte(`{"Total": "three"}`)})
	_, err := given.Documents(orders(), j.Events())
	var decode *event.DecodeError
	if !errors.As(err, &decode) || projection.Classify(err) != projection.ClassPermanent {
		t.Errorf("got %v", err)
	}
}

// mistake returns what keeps a projection from working.
func mistake(t *testing.T, p projection.Projection) error {
	t.Helper()
	return groupstate.Engine(p).(interface{ Mistake() error }).Mistake()
}

func TestMistakesAreFoundBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	fold := func(*order, event.Event) error { return nil }
	key := func(event.Event) (string, error) { return "k", nil }
	reaction := projection.React(paid, func(*order, event.Event, order) ([]projection.Do, error) { return nil, nil })
	react := []projection.Reaction[order]{reaction}
	handle := projection.Handle(placed, func(context.Context, *projection.Group, event.Event, order) error { return nil })
	twice := orders()
	twice.On = append(twice.On, twice.On[0])
	more := orders()
	more.Types = []string{"placed", "returned"}
	both := orders()
	both.Key, both.Keys = key, func(event.Event) ([]string, error) { return nil, nil }
	for want, p := range map[string]projection.Projection{
		"has Key and Keys: leave one":                   both,
		`no function for events of the type "returned"`: more,
		"no fold": projection.Document[order]{Name: "p"},
		`two functions for events of the type "placed"`: twice,
		"no function for one of its folds":              projection.Document[order]{Name: "p", On: make(event.Folds[order], 1)},
		"no Key":                                        projection.Process[order]{Name: "p", Fold: fold, React: react},
		"no React":                                      projection.Process[order]{Name: "p", Fold: fold, Key: key},
		" ":                                             projection.Process[order]{Name: "p", Key: key, React: react},
		"two functions for events of the type \"paid\"": projection.Process[order]{Name: "p", Key: key, React: append(react, reaction)},
		"no function for one of its reactions": projection.Process[order]{
			Name: "p", Key: key, React: make([]projection.Reaction[order], 1),
		},
		`no function for events of the type "lost"`: projection.Process[order]{
			Name: "p", Key: key, React: react, Types: []string{"paid", "lost"},
		},
		"two functions for events":            projection.Handlers{Name: "p", On: []projection.Handler{handle, handle}},
		"no function for one of its handlers": &projection.Handlers{Name: "p", On: make([]projection.Handler, 1)},
		"":                                    projection.Process[order]{Name: "p", Fold: fold, Key: key, React: react},
	} {
		err := mistake(t, p)
		if want = strings.TrimSpace(want); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// renamed is a document with an Apply of its own.
type renamed struct{ projection.Document[order] }

func (renamed) Apply(context.Context, *projection.Group) error { return errors.New("its own") }

func TestAKindThatIsEmbeddedIsAppliedByTheMethodsAround(t *testing.T) {
	t.Parallel()
	p, ok := groupstate.Engine(renamed{orders()}).(projection.Projection)
	if err := p.Apply(t.Context(), nil); !ok || err == nil || err.Error() != "its own" {
		t.Errorf("got %v", err)
	}
}

// A process wants the events that it folds or reacts to. Its state changes only by those that it folds.
func TestAProcessReactsToTypesThatItDoesNotFold(t *testing.T) {
	t.Parallel()
	p := projection.Process[order]{
		Name: "p", Version: 1, Key: func(e event.Event) (string, error) { return e.CampaignID, nil }, On: orders().On,
		React: []projection.Reaction[order]{
			projection.React(paid, func(o *order, _ event.Event, p order) ([]projection.Do, error) {
				if p.Paid < o.Total {
					return nil, nil
				}
				return []projection.Do{{Events: []event.Event{cancelled.New(order{})}}, {Timer: "t", Cancel: true}}, nil
			}),
		},
	}
	if types := strings.Join(p.Spec().Types, " "); types != "cancelled paid placed" {
		t.Errorf("it wants %q", types)
	}
	var j given.Journal
	j.Append("none", paid.New(order{Paid: 1}))
	j.Append("some", placed.New(order{Total: 3}), paid.New(order{Paid: 2}), paid.New(order{Paid: 3}))
	todo, states, err := given.Reactions(p, j.Events())
	if err != nil || len(todo) != 4 || todo[0].Campaign != "none" || todo[2].Campaign != "some" || todo[3].Campaign != "" {
		t.Errorf("it does %+v, %v", todo, err)
	}
	if len(states) != 1 || states["some"] != (order{Total: 3}) {
		t.Errorf("the states are %+v", states)
	}
}

func TestDecisionsFoldByKeyAsTheProjectionDoes(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", placed.New(order{Total: 3}), paid.New(order{Paid: 2}), placed.New(order{Total: 1}))
	j.Append("b", placed.New(order{Total: 5}), cancelled.New(order{}))
	j.Append("c", cancelled.New(order{}), placed.New(order{Total: 7}))
	by := orders()
	by.Scope, by.Key = projection.ScopeJournal, func(e event.Event) (string, error) { return e.CampaignID, nil }
	docs, err := given.State(j.Events(), event.Query{}, by.FoldByKey)
	if err != nil || len(docs) != 2 || docs["a"] != (order{Total: 4}) || docs["c"] != (order{Total: 7}) {
		t.Errorf("got %v, %v", docs, err)
	}
	if docs, err := given.State(j.Events(), event.Query{}, orders().FoldByKey); err != nil || len(docs) != 1 ||
		docs[projection.AllKeys] != (order{Total: 7}) {
		t.Errorf("without a key: %v, %v", docs, err)
	}
	one, err := given.State(j.Events(), event.Types(orders().On.Types()...), orders().On.Fold)
	if err != nil || one != (order{Total: 7}) {
		t.Errorf("one state of all events: %v, %v", one, err)
	}
	by.Key = func(event.Event) (string, error) { return "", errors.New("no key") }
	if _, err := given.State(j.Events(), event.Query{}, by.FoldByKey); err == nil {
		t.Error("an error of Key is none")
	}
}
