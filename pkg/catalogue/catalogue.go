package catalogue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Catalogue lists the event types: their current names, versions and shapes. Append fills in
// defaults and refuses events by it; readers get old events in their current shape. It is immutable
// and safe for concurrent use. A nil Catalogue has no types and accepts all.
type Catalogue struct {
	types         map[string]*catalogued // by current name and by alias
	refuseUnknown bool
	sealer        *Sealer // nil: none
}

// New returns a catalogue of types. The error reports every mistake in them. Append accepts types that are
// not in it; see [Catalogue.RefuseUnknown].
func New(types ...EventType) (*Catalogue, error) {
	c := &Catalogue{types: make(map[string]*catalogued, len(types))}
	var mistakes []error
	for _, t := range types {
		if t.Type != nil && t.Name == "" {
			t.Name = t.Type.Name()
		}
		for _, mistake := range c.add(&t) {
			mistakes = append(mistakes, fmt.Errorf("event type %s: %w", text.Shortened(t.Name), mistake))
		}
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return c, nil
}

// RefuseUnknown returns a copy of c that refuses appends, but not reads, of types it does not have.
func (c *Catalogue) RefuseUnknown() *Catalogue {
	strict := *cmp.Or(c, &Catalogue{})
	strict.refuseUnknown = true
	return &strict
}

// Names returns every name that events of type t may be stored under: the current name, then the
// aliases. t may be any of them. A type that is not in the catalogue has one name.
func (c *Catalogue) Names(t string) []string {
	if known := c.find(t); known != nil {
		return slices.Clone(known.names)
	}
	return []string{t}
}

// Subjects returns the fields that name the subject of events, by every name that types are stored under.
func (c *Catalogue) Subjects() map[string][]string {
	return c.fields(func(t *catalogued) []string { return t.Subject })
}

// Personal returns the personal fields of events, by every name that types are stored under.
func (c *Catalogue) Personal() map[string][]string {
	return c.fields(func(t *catalogued) []string { return t.Personal })
}

func (c *Catalogue) fields(of func(*catalogued) []string) map[string][]string {
	fields := map[string][]string{}
	for _, t := range c.all() {
		for _, name := range t.names {
			if paths := of(t); len(paths) > 0 {
				fields[name] = slices.Clone(paths)
			}
		}
	}
	return fields
}

// Intent returns the intent of type t or of the type with alias t; "" if the catalogue has neither.
func (c *Catalogue) Intent(t string) event.Intent {
	if known := c.find(t); known != nil {
		return known.Intent
	}
	return ""
}

// AsStored reports whether reading as type t returns events exactly as stored under that name: t is not an
// alias, and has neither aliases nor upcasters. The events must then have version only, or
// [Catalogue.Current] returns an error. 0 means any version, for types that are not in the catalogue.
func (c *Catalogue) AsStored(t string) (only int, ok bool) {
	known := c.find(t)
	switch {
	case known == nil:
		return 0, true
	case known.Name != t || len(known.names) > 1 || known.oldest < known.Version:
		return 0, false
	}
	return known.Version, true
}

func (c *Catalogue) find(name string) *catalogued {
	if c == nil {
		return nil
	}
	return c.types[name]
}

// all returns the types, ordered by name.
func (c *Catalogue) all() (types []*catalogued) {
	if c == nil {
		return nil
	}
	for name, t := range c.types {
		if name == t.Name {
			types = append(types, t)
		}
	}
	slices.SortFunc(types, func(a, b *catalogued) int { return strings.Compare(a.Name, b.Name) })
	return types
}
