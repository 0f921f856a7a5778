package projection

import (
	"context"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Handlers is a projection of one function per event type, which queues its own statements. Name and Version
// are required.
type Handlers struct {
	Name    string // as in [Spec], like all others but On
	Version int
	Tables  string

	On []Handler // one for each event type

	// Types may be left out: they are those of On. If they are given, a type without a handler is a mistake
	// that is found before the first event.
	Types []string

	Scope      Scope
	Key        func(e event.Event) (string, error)
	KeyColumn  string
	Partitions int

	OnFailure   Policy
	OnFailureOf map[string]Policy
	Classify    func(err error) Class
}

// Handler is the function of an event type. Make it with [Handle].
type Handler struct {
	eventType string
	call      func(ctx context.Context, group *Group, e event.Event) error
}

// Handle has a function handle the events of a type. The payload is decoded into T (encoding/json).
// Projections that decode the same event into the same type share the value, and must not change it. The
// function queues its writes ([Group.Queue]) or uses the transaction ([Group.Tx]). Its context names the event
// as the cause of any events it appends, and ends with the call.
func Handle[T any](
	eventType event.Type[T], handle func(ctx context.Context, group *Group, e event.Event, payload T) error,
) Handler {
	return Handler{string(eventType), func(ctx context.Context, g *Group, e event.Event) error {
		payload, err := event.Decode[T](e)
		if err != nil {
			return err
		}
		return handle(ctx, g, e, payload)
	}}
}

// Spec implements [Projection].
func (h Handlers) Spec() Spec {
	types := []string{} // nil would mean all
	for _, handler := range h.On {
		types = append(types, handler.eventType)
	}
	slices.Sort(types)
	return Spec{
		Name: h.Name, Version: h.Version, Types: slices.Compact(types), Tables: h.Tables,
		Scope: h.Scope, Key: h.Key, KeyColumn: h.KeyColumn, Partitions: h.Partitions,
		OnFailure: h.OnFailure, OnFailureOf: h.OnFailureOf, Classify: h.Classify,
	}
}

// Apply implements [Projection].
func (h Handlers) Apply(ctx context.Context, g *Group) error { return h.engine().Apply(ctx, g) }

func (h Handlers) engine() engine {
	of := &handlers{Handlers: h, calls: map[string]call{}}
	for _, handler := range h.On {
		of.calls[handler.eventType] = handler.call
	}
	return of
}

// handlers applies [Handlers].
type handlers struct {
	Handlers
	calls map[string]call
}

type call = func(ctx context.Context, group *Group, e event.Event) error

// Mistake returns what keeps the handlers from working.
func (h *handlers) Mistake() error {
	given := map[string]bool{}
	for _, handler := range h.On {
		switch {
		case handler.call == nil:
			return lacks(h.Name, "function for one of its handlers", "make handlers with projection.Handle")
		case given[handler.eventType]:
			return twice(h.Name, handler.eventType)
		}
		given[handler.eventType] = true
	}
	return nil
}

// Apply implements [Projection].
func (h *handlers) Apply(ctx context.Context, g *Group) error {
	for i := range g.Events {
		g.at(&g.Events[i])
		if err := h.handle(ctx, g, &g.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

// ApplyEvent applies one event, independent of the others.
func (h *handlers) ApplyEvent(ctx context.Context, g *Group, e event.Event) error {
	return h.handle(ctx, g, &e)
}

// handle calls the handler of an event, with the event as the cause of anything it appends.
func (h *handlers) handle(ctx context.Context, g *Group, e *event.Event) error {
	return h.calls[e.Type](feed.WithCause(ctx, e), g, *e)
}

// Handled returns the event types that the handlers declare, and whether there is one for a type.
func (h *handlers) Handled() (declared []string, has func(eventType string) bool) {
	return h.Types, func(eventType string) bool { return h.calls[eventType] != nil }
}
