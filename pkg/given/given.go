package given

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// State folds the events that a query selects into a state, as journal.Decide does, for tests of decisions.
func State[S any](
	events []event.Event, q event.Query, fold func(state *S, e event.Event) error,
) (state S, err error) {
	for _, e := range events {
		if q.Matches(e) {
			if err := fold(&state, e); err != nil {
				return state, at(e, err)
			}
		}
	}
	return state, nil
}

// Key names a document. Across campaigns Campaign is empty. Where a document has neither Key nor Keys, so is Key.
type Key struct{ Campaign, Key string }

// Documents folds events into documents. Deleted ones, and those that no event concerns, are not there.
func Documents[T any](d projection.Document[T], events []event.Event) (map[Key]T, error) {
	f := newFolds(d)
	if err := mistake(d); err != nil {
		return f.docs, err
	}
	for _, e := range events {
		if _, err := f.add(e); err != nil {
			return f.docs, at(e, err)
		}
	}
	return f.docs, nil
}

// Reactions folds events into the states of a process. It returns what the process does about them, in order,
// and the states by key.
func Reactions[S any](
	p projection.Process[S], events []event.Event,
) (todo []projection.Do, states map[string]S, err error) {
	f := newFolds(projection.Document[S]{
		Name: p.Name, Version: p.Version, On: p.On, Fold: p.Fold, Types: p.Spec().Types, Key: p.Key,
		Scope: projection.ScopeJournal,
	})
	react := groupstate.Engine(p).(interface {
		ReactOne(state *S, e event.Event) ([]projection.Do, error)
	}).ReactOne
	states = map[string]S{}
	if err := mistake(p); err != nil {
		return nil, states, err
	}
	for _, e := range events {
		concerned, err := f.add(e)
		if err == nil && len(concerned) > 0 { // a process has one key
			key := concerned[0]
			state, there := f.docs[key]
			if delete(states, key.Key); there {
				states[key.Key] = state
			}
			var do []projection.Do
			do, err = react(&state, e)
			todo = append(todo, do...)
		}
		if err != nil {
			return todo, states, at(e, err)
		}
	}
	return todo, states, nil
}

// folds holds documents in memory.
type folds[T any] struct {
	of    projection.Document[T]
	fold  func(e event.Event, key string, doc *T, none bool) (deleted bool, err error)
	keys  func(e event.Event) ([]string, error)
	wants func(e event.Event) bool
	docs  map[Key]T
}

func newFolds[T any](d projection.Document[T]) *folds[T] {
	of := groupstate.Engine(d).(interface {
		FoldOne(e event.Event, key string, doc *T, none bool) (deleted bool, err error)
		EventKeys(e event.Event) ([]string, error)
	})
	return &folds[T]{d, of.FoldOne, of.EventKeys, wanted(d), map[Key]T{}}
}

// add folds an event, and returns the keys of its documents.
func (f *folds[T]) add(e event.Event) (concerned []Key, err error) {
	if !f.wants(e) {
		return nil, nil
	}
	keys, err := f.keys(e)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		at, err := f.addTo(e, key)
		if err != nil {
			return concerned, err
		}
		concerned = append(concerned, at)
	}
	return concerned, nil
}

// addTo folds an event into the document of a key.
func (f *folds[T]) addTo(e event.Event, key string) (at Key, err error) {
	if at = (Key{e.CampaignID, key}); f.of.Scope == projection.ScopeJournal {
		at.Campaign = ""
	}
	if f.of.Key == nil && f.of.Keys == nil {
		at.Key = ""
	}
	stored, there := f.docs[at]
	doc, err := copied(stored)
	if err != nil {
		return at, err
	}
	deleted, err := f.fold(e, key, &doc, !there)
	if err != nil {
		return at, err
	}
	if f.docs[at] = doc; deleted {
		delete(f.docs, at)
	}
	return at, nil
}

// copied returns a document as the next group reads it: encoded and decoded.
func copied[T any](doc T) (next T, err error) {
	raw, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(raw, &next)
	}
	return next, err
}

// Statement is what a projection has queued.
type Statement struct {
	SQL  string
	Args []any
}

// ErrNoDatabase is returned by [Statements] for projections that read, and by [projection.Group.Tx] in it.
var ErrNoDatabase = errors.New("there is no database in this test: use projectiontest for projections that read")

// Statements applies events to a projection and returns the statements that it queues, in order. Nothing runs
// them, and what reads their results is not called. A projection that reads first is refused with [ErrNoDatabase].
func Statements(p projection.Projection, events []event.Event) ([]Statement, error) {
	if err := mistake(p); err != nil {
		return nil, err
	}
	if _, reads := p.(projection.Loader); reads {
		return nil, fmt.Errorf("%w; Documents and Reactions fold documents and processes", ErrNoDatabase)
	}
	line, wants := &line{}, wanted(p)
	for _, e := range events {
		if !wants(e) {
			continue
		}
		g := &projection.Group{Events: []event.Event{e}}
		groupstate.Of(g).Line = line
		if err := p.Apply(context.Background(), g); err != nil {
			return line.statements, at(e, err)
		}
	}
	return line.statements, nil
}

// line collects statements.
type line struct{ statements []Statement }

func (l *line) About(string, string, int64, string) {}

func (l *line) Queue(sql string, args ...any) *pgx.QueuedQuery {
	l.statements = append(l.statements, Statement{sql, args})
	return &pgx.QueuedQuery{SQL: sql, Arguments: args}
}

func (l *line) Direct(context.Context) (*pgx.Conn, error) { return nil, ErrNoDatabase }

// mistake returns what keeps a kind of projection from working.
func mistake(p projection.Projection) error {
	if kind, ok := groupstate.Engine(p).(interface{ Mistake() error }); ok {
		return kind.Mistake()
	}
	return nil
}

// wanted returns whether a projection wants an event.
func wanted(p projection.Projection) func(e event.Event) bool {
	types := p.Spec().Types
	is := map[string]bool{}
	for _, t := range types {
		is[t] = true
	}
	return func(e event.Event) bool {
		return e.Intent == event.ProjectionAndReplay && (types == nil || is[e.Type])
	}
}

// at names the event of an error.
func at(e event.Event, err error) error {
	return fmt.Errorf("event %d of campaign %q (%s): %w", e.Seq, e.CampaignID, e.Type, err)
}
