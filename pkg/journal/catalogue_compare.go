package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
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

// CatalogueChange is a difference between two catalogues.
type CatalogueChange struct {
	Type          string // its current name: in the newer catalogue, else in the older one
	Compatibility Compatibility
	Detail        string // what has changed
}

// Compare returns the changes of types, names, versions, intents and schemas from c to a newer
// catalogue, ordered by type.
func (c *Catalogue) Compare(newer *Catalogue) (changes []CatalogueChange) {
	for _, t := range c.all() {
		n := newer.find(t.Name)
		if n == nil {
			changes = append(changes, t.withdrawn())
			continue
		}
		note := func(what Compatibility, format string, args ...any) {
			changes = append(changes, CatalogueChange{n.Name, what, fmt.Sprintf(format, args...)})
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
		if n.Version == t.Version && !bytes.Equal(compacted(n.Schema), compacted(t.Schema)) {
			note(CompatibleMaybe, "the schema of version %d has changed", n.Version)
		}
		if n.Intent != t.Intent {
			note(CompatibleFull, "new events have the intent %s, and had %s", n.Intent, t.Intent)
		}
	}
	for _, n := range newer.all() {
		if !slices.ContainsFunc(n.names, func(name string) bool { return c.find(name) != nil }) {
			changes = append(changes, CatalogueChange{n.Name, CompatibleFull, "it is new"})
		}
	}
	slices.SortStableFunc(changes, func(a, b CatalogueChange) int { return cmp.Compare(a.Type, b.Type) })
	return changes
}

func (t *catalogued) withdrawn() CatalogueChange {
	if t.oldest < t.Version || len(t.names) > 1 {
		return CatalogueChange{
			t.Name, CompatibleForward, "it is gone: its events of older versions and names are read as stored",
		}
	}
	return CatalogueChange{t.Name, CompatibleFull, "it is gone: its events are read as stored, and new ones unchecked"}
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

// compacted returns a document without white space.
func compacted(document json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, document) != nil {
		return document
	}
	return b.Bytes()
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

// CatalogueReport is the result of [Catalogue.Check].
type CatalogueReport struct {
	Events   int64            // that were looked at
	Erased   int64            // of these, that an erasure has taken or whose key is deleted: they fit
	Sealed   int64            // of these, not checked: their fields cannot be opened without the wrapping keys
	Whole    bool             // these are all events below the writer floor
	Unknown  map[string]int64 // events of types that the catalogue does not name
	Unused   []string         // types of which no event was seen
	Misfits  []CatalogueMisfit
	NotShown int64 // further misfits
}

// CatalogueMisfit is an event that the catalogue cannot read, or whose current shape does not meet its schema.
type CatalogueMisfit struct {
	CampaignID string
	Seq        int64
	Type       string // as stored
	Version    int
	Detail     string // without values of the payload, except those in an upcaster's own error
}

const (
	checkWindow = 200     // events in a row
	checkBytes  = 4 << 20 // of one read, about
	checkShown  = 100     // misfits
)

// Check brings about n events, spread over the journal, to their current shape, and compares them with
// their schemas. n <= 0: all events. It must not run inside a REPEATABLE READ or SERIALIZABLE
// transaction. Misfits are not errors.
func (c *Catalogue) Check(ctx context.Context, db event.Querier, n int64) (r CatalogueReport, err error) {
	floor, err := feed.Floor(ctx, db)
	if err != nil {
		return r, err
	}
	windows := (n + checkWindow - 1) / checkWindow
	r.Whole = n <= 0 || n >= floor
	r.Unknown = map[string]int64{}
	used := map[*catalogued]bool{}
	for i, after := int64(0), int64(0); after < floor && (r.Whole || i < windows); i++ {
		events, until, err := feed.ReadWindow(ctx, db, event.Window{
			After: after, Floor: floor, Events: checkWindow, Bytes: checkBytes,
		})
		if err != nil {
			return r, fmt.Errorf("check the catalogue: %w", err)
		}
		var faults map[int64]error
		if c != nil && c.sealer != nil {
			if faults, err = c.Open(ctx, db, events); err != nil {
				return r, fmt.Errorf("check the catalogue: %w", err)
			}
		}
		for j := range events {
			c.check(&events[j], faults[events[j].Position], &r, used)
		}
		if after = until; !r.Whole {
			after = max(until, floor/windows*(i+1))
		}
	}
	for _, t := range c.all() {
		if !used[t] {
			r.Unused = append(r.Unused, t.Name)
		}
	}
	return r, nil
}

func (c *Catalogue) check(e *event.Event, err error, r *CatalogueReport, used map[*catalogued]bool) {
	r.Events++
	t := c.find(e.Type)
	if t == nil {
		r.Unknown[e.Type]++
		return
	}
	used[t] = true
	switch {
	case e.Erased():
		r.Erased++
		return
	case err == nil && c.sealer == nil && hasSealed(e.Payload): // the field may not be personal any more
		r.Sealed++
		return
	case err == nil:
		err = e.Unreadable()
	}
	if err == nil {
		current := *e
		err = c.prepare(&current)
	}
	if err == nil {
		return
	}
	if len(r.Misfits) == checkShown {
		r.NotShown++
		return
	}
	misfit := CatalogueMisfit{e.CampaignID, e.Seq, e.Type, e.Version, err.Error()}
	if invalid, ok := errors.AsType[*InvalidEventError](err); ok {
		misfit.Detail = invalid.Field + " " + invalid.Reason
	}
	r.Misfits = append(r.Misfits, misfit)
}
