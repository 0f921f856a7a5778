package event

import (
	"errors"
	"slices"
)

// Delete is returned by a function of [On] to delete the document or state. A later event may recreate it.
var Delete = errors.New("delete the document")

// Folds are how events change an S: a document, the state of a process, or that of a decision. They have one
// [Fold] for each of some event types:
//
//	var level = event.Folds[int]{
//		event.On(Delivered, func(left *int, _ event.Event, d Delivery) error {
//			*left += d.Quantity
//			return nil
//		}),
//	}
//
// A projection has them as its On. A decision by the same events passes their method: journal.Decide(ctx, tx,
// query, level.Fold).
type Folds[S any] []Fold[S]

// Fold changes the state by an event. Events of types without a function change nothing, and [Delete] makes
// the state the zero S. Functions of [OnKey] get the key "".
func (f Folds[S]) Fold(state *S, e Event) error {
	for _, one := range f {
		if one.eventType != e.Type {
			continue
		}
		err := one.Apply(state, "", e)
		if errors.Is(err, Delete) {
			*state, err = *new(S), nil
		}
		return err
	}
	return nil
}

// Types returns the event types that have a function, in order, for the query of a decision.
func (f Folds[S]) Types() []string {
	types := make([]string, len(f))
	for i, one := range f {
		types[i] = one.eventType
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// Fold is how events of one type change an S. Make it with [On] or [OnKey].
type Fold[S any] struct {
	eventType string
	apply     func(state *S, key string, e Event) error
}

// Name returns the name of the event type; "" for the zero Fold.
func (f Fold[S]) Name() string { return f.eventType }

// Apply calls the function with an event of the type, and the key of the document that it changes. It returns
// [Delete] if the function does.
func (f Fold[S]) Apply(state *S, key string, e Event) error { return f.apply(state, key, e) }

// On has a function fold the events of a type into an S, which is at first the zero S. The payload is decoded
// into P (encoding/json), and may be shared with other folds: do not change it. The function must depend only
// on its arguments. It returns [Delete] to delete the document or state.
func On[S, P any](eventType Type[P], fold func(state *S, e Event, payload P) error) Fold[S] {
	return OnKey(eventType, func(state *S, _ string, e Event, payload P) error { return fold(state, e, payload) })
}

// OnKey is [On] for a function that needs the key of the document it changes. Where an event changes several
// documents, the key tells which part of the event is for this one.
func OnKey[S, P any](eventType Type[P], fold func(state *S, key string, e Event, payload P) error) Fold[S] {
	return Fold[S]{string(eventType), func(state *S, key string, e Event) error {
		payload, err := Decode[P](e)
		if err != nil {
			return err
		}
		return fold(state, key, e, payload)
	}}
}
