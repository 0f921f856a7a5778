package catalogue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admission"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func init() { //nolint:gochecknoinits // the journal's way to what an append asks
	admission.Of = func(ctx context.Context, c any, tx event.Querier, batches [][]event.Event) (admission.Admit, error) {
		return c.(*Catalogue).admission(ctx, tx, batches)
	}
}

// admission returns what admits the events of an append.
func (c *Catalogue) admission(ctx context.Context, tx event.Querier, batches [][]event.Event) (admission.Admit, error) {
	keys, err := c.keysOf(ctx, tx, batches)
	if err != nil {
		return nil, err
	}
	return func(campaignID string, e *event.Event) error {
		if err := c.prepare(e); err != nil {
			return err
		}
		return c.seal(campaignID, e, keys)
	}, nil
}

// prepare fills in the version and the intent, replaces an alias, and checks the payload's current
// shape against the schema. A refusal is an [*admission.Fault].
func (c *Catalogue) prepare(e *event.Event) error {
	t := c.find(e.Type)
	if t == nil {
		if c != nil && c.refuseUnknown {
			return &admission.Fault{Field: "type", Reason: "is not in the event catalogue, which refuses unknown types: " +
				"add it there, or accept unknown types"}
		}
		fillIn(e, 1, event.ProjectionAndReplay)
		return nil
	}
	fillIn(e, t.Version, t.Intent)
	if e.Version > t.Version || e.Version < t.oldest {
		return &admission.Fault{Field: "version", Reason: fmt.Sprintf("is %d, the catalogue knows %d … %d: write version "+
			"%d, or extend the catalogue", e.Version, t.oldest, t.Version, t.Version)}
	}
	payload, err := t.upcast(e.Payload, e.Version)
	if err != nil {
		reason := fmt.Sprintf("is not what version %d should be: %v", e.Version, err)
		return &admission.Fault{Field: "payload", Reason: reason}
	}
	if t.Schema != nil {
		if err := t.Schema.Check(payload); err != nil {
			return &admission.Fault{Field: "payload", Reason: fmt.Sprintf("breaks the schema of %s: %v", t.Name, err)}
		}
	}
	e.Type = t.Name
	return nil
}

// fillIn sets the version and the intent if they are zero.
func fillIn(e *event.Event, version int, intent event.Intent) {
	e.Version, e.Intent = cmp.Or(e.Version, version), cmp.Or(e.Intent, intent)
}
