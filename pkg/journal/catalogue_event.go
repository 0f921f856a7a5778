package journal

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// ErrUnknownVersion is returned by [Catalogue.Current] for an event it cannot bring to the current
// version of its type. The text names the event, the versions and the remedy.
var ErrUnknownVersion = errors.New("unknown version of an event")

// admit validates e, the journal's own copy, and fills in defaults from the catalogue.
func (c *Catalogue) admit(campaignID string, index int, e *Event) error {
	err := validate(campaignID, e)
	if err == nil {
		err = c.prepare(e)
	}
	if refused, ok := errors.AsType[*InvalidEventError](err); ok {
		refused.Campaign, refused.Index = campaignID, index
	}
	return err
}

// prepare fills in the version and the intent, replaces an alias, and checks the payload's current
// shape against the schema. The error is an [InvalidEventError] without campaign and index.
func (c *Catalogue) prepare(e *Event) error {
	t := c.find(e.Type)
	if t == nil {
		if c != nil && c.refuseUnknown {
			return &InvalidEventError{
				Type: e.Type, Field: "type",
				Reason: "is not in the event catalogue, which refuses unknown types: add it there, or accept unknown types",
			}
		}
		fillIn(e, 1, ProjectionAndReplay)
		return nil
	}
	given := e.Type
	e.Type = t.Name
	fillIn(e, t.Version, t.Intent)
	if e.Version > t.Version || e.Version < t.oldest {
		return &InvalidEventError{
			Type: given, Field: "version",
			Reason: fmt.Sprintf("is %d, the catalogue knows %d … %d: write version %d, or extend the catalogue",
				e.Version, t.oldest, t.Version, t.Version),
		}
	}
	payload, err := t.upcastPayload(e.Payload, e.Version)
	if err != nil {
		return &InvalidEventError{
			Type: given, Field: "payload",
			Reason: fmt.Sprintf("is not what version %d should be: %v", e.Version, err),
		}
	}
	if reason := t.checkSchema(payload); reason != "" {
		return &InvalidEventError{Type: given, Field: "payload", Reason: reason}
	}
	return nil
}

// fillIn sets the version and the intent if they are zero.
func fillIn(e *Event, version int, intent Intent) {
	e.Version, e.Intent = cmp.Or(e.Version, version), cmp.Or(e.Intent, intent)
}

// Current returns a copy of the event under its type's current name and version, its payload
// upcast. Events of types that are not in the catalogue are returned unchanged. A version that the
// catalogue cannot read is an [ErrUnknownVersion]; an upcaster's error is returned wrapped.
func (c *Catalogue) Current(e Event) (Event, error) {
	if err := e.Unreadable(); err != nil {
		return e, err
	}
	t := c.find(e.Type)
	if t == nil {
		return e, nil
	}
	switch {
	case e.Version == t.Version:
		e.Type = t.Name
		return e, nil
	case e.Version > t.Version || e.Version < t.oldest:
		remedy := "add the missing upcasters to the catalogue"
		if e.Version > t.Version {
			remedy = "deploy the catalogue of the program that wrote it"
		}
		return e, detailing(ErrUnknownVersion, "event %d of campaign %s is %s version %d, the catalogue reads %d … %d: %s",
			e.Seq, feed.Shortened(e.CampaignID), feed.Shortened(e.Type), e.Version, t.oldest, t.Version, remedy)
	}
	payload, err := t.upcastPayload(e.Payload, e.Version)
	if err != nil {
		return e, fmt.Errorf("event %d of campaign %s: %w", e.Seq, feed.Shortened(e.CampaignID), err)
	}
	e.Type, e.Version, e.Payload = t.Name, t.Version, payload
	feed.ForgetDecoded(&e)
	return e, nil
}
