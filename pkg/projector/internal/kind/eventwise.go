package kind

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/function"
)

// EachEvent applies one event of a projection that takes its events one by one. What it does about
// one follows from that one.
type EachEvent func(ctx context.Context, g *Group, e journal.Event) error

// Eventwise answers how the projection takes its events one by one; nil: it does not.
func Eventwise(p Projection) EachEvent {
	switch p := p.(type) {
	case function.Eventwise[*Group]: // of another package
		return p.ApplyEvent
	case *Handlers:
		return p.applyEvent
	}
	return nil
}

// ErrIntricate says that a projection's statements cannot be cut into parts: it looks at results, or
// queues for several events at once, or too many different statements, or what becomes of them is
// known at the end.
var ErrIntricate = errors.New("the projection's statements cannot be cut into parts")

// Stepper is implemented by projections that read before they apply, and can still be told which event a write is for.
type Stepper interface {
	// applyEach is Apply, with before called ahead of what is queued for each event.
	ApplyEach(ctx context.Context, g *Group, before func(journal.Event)) error
}
