// Package admission is what an append asks of an event catalogue. pkg/catalogue sets it for pkg/journal.
// Users see none of it.
package admission

import (
	"context"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// Of returns what admits the events of an append. c is a *catalogue.Catalogue, whose package sets the
// function. tx is the append's transaction, in which the keys of new subjects are
// created; nil: there is none. batches are all events of the append.
//
//nolint:gochecknoglobals // the way to unexported functions of another package
var Of func(ctx context.Context, c any, tx event.Querier, batches [][]event.Event) (Admit, error)

// Admit fills in the version and the intent of an event, replaces an alias, checks the payload and seals
// personal fields. A refusal is a [*Fault].
type Admit func(campaignID string, e *event.Event) error

// Fault is why an event is refused, without values of its payload.
type Fault struct {
	Field  string // "payload", "tags[3]", …
	Reason string // what is wrong with it, and what to do
}

func (f *Fault) Error() string { return f.Field + " " + f.Reason }
