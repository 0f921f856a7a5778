package catalogue

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Report is the result of [Catalogue.Check].
type Report struct {
	Events   int64            // that were looked at
	Erased   int64            // of these, that an erasure has taken or whose key is deleted: they fit
	Sealed   int64            // of these, not checked: their fields cannot be opened without the wrapping keys
	Whole    bool             // these are all events below the writer floor
	Unknown  map[string]int64 // events of types that the catalogue does not name
	Unused   []string         // types of which no event was seen
	Misfits  []Misfit
	NotShown int64 // further misfits
}

// Misfit is an event that the catalogue cannot read, or whose current shape does not meet its schema.
type Misfit struct {
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
func (c *Catalogue) Check(ctx context.Context, db event.Querier, n int64) (r Report, err error) {
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

func (c *Catalogue) check(e *event.Event, err error, r *Report, used map[*catalogued]bool) {
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
	misfit := Misfit{e.CampaignID, e.Seq, e.Type, e.Version, err.Error()}
	r.Misfits = append(r.Misfits, misfit)
}
