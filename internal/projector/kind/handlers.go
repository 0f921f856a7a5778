package kind

import (
	"context"
	"maps"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Handlers is projector.Handlers.
type Handlers struct {
	spec  Spec
	calls map[string]func(context.Context, *Group, event.Event) error
}

// NewHandlers is projector.NewHandlers.
func NewHandlers(spec Spec) *Handlers {
	return &Handlers{spec: spec, calls: map[string]func(context.Context, *Group, event.Event) error{}}
}

// On is projector.On.
func On[T any](
	h *Handlers, eventType event.Type[T],
	handle func(ctx context.Context, group *Group, e event.Event, payload T) error,
) {
	h.calls[string(eventType)] = func(ctx context.Context, g *Group, e event.Event) error {
		payload, err := event.Decode[T](e)
		if err != nil {
			return err
		}
		return handle(ctx, g, e, payload)
	}
}

// Spec implements [Projection].
func (h *Handlers) Spec() Spec {
	spec := h.spec
	spec.Types = slices.AppendSeq([]string{}, maps.Keys(h.calls)) // nil would mean all
	slices.Sort(spec.Types)
	return spec
}

// Apply implements [Projection].
func (h *Handlers) Apply(ctx context.Context, g *Group) error {
	for i := range g.Events {
		g.at(&g.Events[i])
		if err := h.handle(ctx, g, &g.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handlers) applyEvent(ctx context.Context, g *Group, e event.Event) error {
	return h.handle(ctx, g, &e)
}

// handle calls the handler of an event, with the event as the cause of anything it appends.
func (h *Handlers) handle(ctx context.Context, g *Group, e *event.Event) error {
	return h.calls[e.Type](feed.WithCause(ctx, e), g, *e)
}

// Handled returns the event types that a projection of handlers declares, and a function that
// reports whether it has a handler for a type.
func Handled(p Projection) (declared []string, has func(eventType string) bool, ok bool) {
	h, ok := p.(*Handlers)
	if !ok {
		return nil, nil, false
	}
	return h.spec.Types, func(eventType string) bool { return h.calls[eventType] != nil }, true
}
