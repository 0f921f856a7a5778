package catalogue

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrUnknownVersion is returned by [Catalogue.Current] for an event it cannot bring to the current
// version of its type. The text names the event, the versions and the remedy.
var ErrUnknownVersion = errors.New("unknown version of an event")

// Current returns a copy of the event under its type's current name and version, its payload
// upcast. Events of types that are not in the catalogue are returned unchanged. A version that the
// catalogue cannot read is an [ErrUnknownVersion]; an upcaster's error is returned wrapped.
func (c *Catalogue) Current(e event.Event) (event.Event, error) {
	if err := e.Unreadable(); err != nil {
		return e, err
	}
	t := c.find(e.Type)
	if t == nil {
		return e, nil
	}
	if e.Version == t.Version {
		e.Type = t.Name
		return e, nil
	}
	return t.current(e)
}

// current is [Catalogue.Current] of an event of another version.
func (t *catalogued) current(e event.Event) (event.Event, error) {
	switch {
	case e.Erased() && string(e.Payload) == "{}": // nothing is left to upcast
		if e.Type, e.Version = t.Name, t.Version; feed.Opened(&e) {
			feed.Open(&e, e.Payload, e.Payload, true)
		}
		return e, nil
	case e.Version > t.Version || e.Version < t.oldest:
		remedy := "add the missing upcasters to the catalogue"
		if e.Version > t.Version {
			remedy = "deploy the catalogue of the program that wrote it"
		}
		return e, text.Detail(ErrUnknownVersion, "event %d of campaign %s is %s version %d, the catalogue reads %d … %d: %s",
			e.Seq, text.Shortened(e.CampaignID), text.Shortened(e.Type), e.Version, t.oldest, t.Version, remedy)
	}
	payload, err := t.upcast(e.Payload, e.Version)
	stored := payload
	if err == nil && feed.Opened(&e) {
		stored, err = t.upcast(feed.Stored(&e), e.Version)
	}
	if err != nil {
		return e, fmt.Errorf("event %d of campaign %s: %w", e.Seq, text.Shortened(e.CampaignID), err)
	}
	e.Type, e.Version = t.Name, t.Version
	if feed.Opened(&e) {
		feed.Open(&e, payload, stored, e.Erased())
	} else {
		e.Payload = payload
		feed.ForgetDecoded(&e)
	}
	return e, nil
}

// upcast runs the upcasters of t from a version to the current one. Each returns a JSON object.
func (t *catalogued) upcast(payload json.RawMessage, version int) (json.RawMessage, error) {
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	for ; version < t.Version; version++ {
		next, err := t.Upcast[version].upcast(payload)
		if err != nil {
			return nil, fmt.Errorf("upcast %s from version %d to %d: %w", t.Name, version, version+1, err)
		}
		payload = next
	}
	return payload, nil
}
