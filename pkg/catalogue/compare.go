package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Compatibility tells which programs can read which events after a change of the catalogue.
type Compatibility string

// The kinds of compatibility.
const (
	CompatibleFull     Compatibility = "full"     // old and new programs read all events
	CompatibleBackward Compatibility = "backward" // new programs read all events, old ones do not read new events
	CompatibleForward  Compatibility = "forward"  // old programs read all events, new ones do not read all old events
	CompatibleNot      Compatibility = "none"     // neither
	CompatibleMaybe    Compatibility = "depends"  // on the events: see [Catalogue.Check]
)

// Change is a difference between two catalogues.
type Change struct {
	Type          string // its current name: in the newer catalogue, else in the older one
	Compatibility Compatibility
	Detail        string // what has changed
}

// Compare returns the changes of types, names, versions, intents and schemas from c to a newer
// catalogue, ordered by type.
func (c *Catalogue) Compare(newer *Catalogue) (changes []Change) {
	for _, t := range c.all() {
		n := newer.find(t.Name)
		if n == nil {
			changes = append(changes, t.withdrawn())
			continue
		}
		note := func(what Compatibility, format string, args ...any) {
			changes = append(changes, Change{n.Name, what, fmt.Sprintf(format, args...)})
		}
		for _, name := range t.names {
			if newer.find(name) != n {
				note(CompatibleForward, "the name %s no longer leads to it: its events under that name are not found", name)
			}
		}
		if n.Name != t.Name {
			note(CompatibleBackward, "its name was %s", t.Name)
		}
		if n.Version != t.Version || n.oldest != t.oldest {
			note(readers(n.oldest <= t.oldest && n.Version >= t.Version, n.Version <= t.Version && n.Version >= t.oldest),
				"it reads versions %d to %d, and read %d to %d", n.oldest, n.Version, t.oldest, t.Version)
		}
		if n.Version == t.Version && compacted(n.Schema) != compacted(t.Schema) {
			note(CompatibleMaybe, "the schema of version %d has changed", n.Version)
		}
		if n.Intent != t.Intent {
			note(CompatibleFull, "new events have the intent %s, and had %s", n.Intent, t.Intent)
		}
	}
	for _, n := range newer.all() {
		if !slices.ContainsFunc(n.names, func(name string) bool { return c.find(name) != nil }) {
			changes = append(changes, Change{n.Name, CompatibleFull, "it is new"})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Type, b.Type) })
	return changes
}

func (t *catalogued) withdrawn() Change {
	if t.oldest < t.Version || len(t.names) > 1 {
		return Change{
			t.Name, CompatibleForward, "it is gone: its events of older versions and names are read as stored",
		}
	}
	return Change{t.Name, CompatibleFull, "it is gone: its events are read as stored, and new ones unchecked"}
}

func readers(newReadOld, oldReadNew bool) Compatibility {
	switch {
	case newReadOld && oldReadNew:
		return CompatibleFull
	case newReadOld:
		return CompatibleBackward
	case oldReadNew:
		return CompatibleForward
	}
	return CompatibleNot
}

// compacted returns the text of a schema without white space.
func compacted(schema Schema) string {
	if schema == nil {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(schema.String())) != nil {
		return schema.String()
	}
	return b.String()
}
