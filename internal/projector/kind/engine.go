package kind

import (
	"context"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Events are what a group has. Across campaigns, an event of several keys is among them once for each.
type Events struct {
	All  []event.Event
	Keys []string // of the events; nil: the projection finds them
}

// Part returns the events from one index up to another.
func (e Events) Part(from, to int) Events {
	part := Events{All: e.All[from:to]}
	if e.Keys != nil {
		part.Keys = e.Keys[from:to]
	}
	return part
}

// NewGroup returns a group of a projection whose statements go through line. comment is appended to them.
func NewGroup(events Events, name, comment string, line *pipeline.Pipeline) *projection.Group {
	g := &projection.Group{Events: events.All}
	s := groupstate.Of(g)
	s.Projection, s.Comment, s.Line, s.Keys = name, comment, line, events.Keys
	return g
}

// Isolate lets projections that know their keys apply the rest of a group in which an event fails.
func Isolate(g *projection.Group, refuse groupstate.Refuse) {
	s := groupstate.Of(g)
	s.Refuse, s.Recover = refuse, failure.Recover
}

// React lets a group's process react.
func React(g *projection.Group, r *groupstate.Reacting) { groupstate.Of(g).Reacting = r }

// LineOf returns the pipeline of a group's statements.
func LineOf(g *projection.Group) *pipeline.Pipeline {
	line, _ := groupstate.Of(g).Line.(*pipeline.Pipeline)
	return line
}

// EndGroup stops all further effects of a group, even if its projection still runs.
func EndGroup(g *projection.Group) { groupstate.Of(g).Ended.Store(true) }

// GroupEnded reports whether the group was ended.
func GroupEnded(g *projection.Group) bool { return groupstate.Of(g).Ended.Load() }

// Statements returns the hash of the statements of a projection in an SQL file; "": it is code in Go.
func Statements(p projection.Projection) string {
	if file, ok := p.(interface{ StatementsHash() string }); ok {
		return file.StatementsHash()
	}
	return ""
}

// EachEvent applies one event of a projection that takes events one by one, each independent of the others.
type EachEvent func(ctx context.Context, g *projection.Group, e event.Event) error

// Eventwise returns how the projection takes events one by one, or nil if it does not.
func Eventwise(p projection.Projection) EachEvent {
	if each, ok := p.(interface {
		ApplyEvent(ctx context.Context, g *projection.Group, e event.Event) error
	}); ok {
		return each.ApplyEvent
	}
	return nil
}

// Handled returns the event types that a projection of handlers declares, and a function that
// reports whether it has a handler for a type.
func Handled(p projection.Projection) (declared []string, has func(eventType string) bool, ok bool) {
	handlers, ok := p.(interface {
		Handled() (declared []string, has func(eventType string) bool)
	})
	if !ok {
		return nil, nil, false
	}
	declared, has = handlers.Handled()
	return declared, has, true
}

// ReactsFrom reports whether a projection is a process, and the position after which it reacts when
// it is new; nil: the end of the journal.
func ReactsFrom(p projection.Projection) (from *int64, ok bool) {
	if process, ok := p.(interface{ ReactsFrom() *int64 }); ok {
		return process.ReactsFrom(), true
	}
	return nil, false
}

// Folder folds groups in memory, campaign by campaign, and writes each result once.
type Folder = groupstate.Folder[*projection.Group]

// Foldable is a projection that can be folded in memory while its tables hold nothing of the campaigns.
type Foldable interface{ NewFold() Folder }

// Modes lists the modes.
func Modes() []projection.Mode {
	return []projection.Mode{
		projection.ModeOutboxApplyOnly, projection.ModeInlineApplyOnly, projection.ModeShadowOnly,
		projection.ModeEnqueueOnly,
	}
}
