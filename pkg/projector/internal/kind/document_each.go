package kind

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// ApplyEach implements stepper: a document is written after each event that changes it. What was loaded is kept up.
func (d *document[T]) ApplyEach(_ context.Context, g *Group, before func(journal.Event)) error {
	w, _ := g.loaded.(*working[T])
	for i, e := range g.Events {
		changed := w.byEvent[i]
		if changed == nil {
			continue
		}
		before(e)
		g.At(e)
		err := d.Fold(&changed.doc, e)
		if changed.deleted = errors.Is(err, Delete); changed.deleted {
			var none T
			changed.doc = none
		} else if err != nil {
			return err
		}
		if err := d.write(g, &working[T]{entries: []*entry[T]{changed}}); err != nil {
			return err
		}
		changed.stored = !changed.deleted
	}
	return nil
}
