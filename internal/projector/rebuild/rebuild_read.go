package rebuild

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	// pageEvents is the most events of a range read at once: as many as a group's memory allows.
	pageEvents = 5000

	// firstPageEvents is how many are read before their size is known.
	firstPageEvents = 500
)

// rangePages reads a range's events page by page into its transaction.
type rangePages struct {
	t         *apply.Transaction
	k         *registry.Projection
	read      feed.CampaignsRead
	campaigns []lease.Lease // from the one read last
}

func newRangePages(t *apply.Transaction, k *registry.Projection, r campaignRange, campaigns []lease.Lease) *rangePages {
	p := &rangePages{t: t, k: k, campaigns: campaigns}
	// first itself is not in the range: start behind all of its events.
	p.read = feed.CampaignsRead{
		CampaignID: r.first, Seq: endOfCampaign, Last: r.last, Events: firstPageEvents, Bytes: t.Applier.Cfg.GroupBytes,
		Careful: t.Applier.Unreadable.Load() > 0, Archive: t.Applier.Cfg.Archive,
	}
	if k.Described.Types != nil {
		p.read.Types = []string{}
		for _, eventType := range k.Described.Types {
			p.read.Types = append(p.read.Types, t.Applier.Cfg.Catalogue.Names(eventType)...)
		}
	}
	return p
}

// endOfCampaign is behind all events of a campaign.
const endOfCampaign = 1<<63 - 1

// next reads the next page of events that the projection wants. It reports whether there are more.
func (p *rangePages) next(ctx context.Context) (more bool, err error) {
	t := p.t
	t.Events = t.Events[:0]
	n, size := 0, int64(0)
	var unreadable error
	current := func(e *event.Event) {
		next, err := t.Applier.Cfg.Catalogue.Current(*e)
		if *e = next; err != nil && unreadable == nil && p.k.Wants(e) {
			unreadable = p.k.Origin(*e).Wrap(failure.Unreadable(err))
		}
	}
	var sealed []int // their places in the page
	start := time.Now()
	more, err = feed.ReadCampaigns(ctx, t.Conn, &p.read, func(e *event.Event, bytes int) {
		n++
		size += int64(bytes)
		if !p.applies(e) {
			return
		}
		t.Events = append(t.Events, *e)
		if last := len(t.Events) - 1; t.Applier.Cfg.Catalogue.Seals(e) {
			sealed = append(sealed, last)
		} else if t.Applier.Cfg.Catalogue != nil || e.Unreadable() != nil {
			current(&t.Events[last])
		}
	})
	err = t.Slow(err, start, p.read.CampaignID, p.read.Seq)
	if err == nil && len(sealed) > 0 {
		err = p.open(ctx, sealed, current, func(e *event.Event, fault error) {
			if unreadable == nil && p.k.Wants(e) {
				unreadable = p.k.Origin(*e).Wrap(failure.Unreadable(fault))
			}
		})
	}
	if t.Applier.SuspectUnreadable(err) != nil || unreadable != nil {
		return false, cmp.Or(err, unreadable)
	}
	if t.Applier.Cfg.Catalogue != nil {
		t.Events = slices.DeleteFunc(t.Events, func(e event.Event) bool { return !p.k.Wants(&e) })
	}
	if n > 0 {
		// If events stay of this size, the next page takes half of the bytes allowed.
		p.read.Events = int(min(max(p.read.Bytes*int64(n)/(2*max(size, 1)), 1), pageEvents))
	}
	return more, nil
}

// applies reports whether the range has the event: of a campaign of its own, up to the checkpoint.
func (p *rangePages) applies(e *event.Event) bool {
	for len(p.campaigns) > 0 && p.campaigns[0].CampaignID < e.CampaignID {
		p.campaigns = p.campaigns[1:]
	}
	return len(p.campaigns) > 0 && p.campaigns[0].CampaignID == e.CampaignID && e.Seq <= p.campaigns[0].Checkpoint &&
		!p.t.LeavesOut(p.k, e)
}

// open opens the sealed fields of the page's events. It calls opened or closed for each of those that have some.
func (p *rangePages) open(
	ctx context.Context, sealed []int, opened func(*event.Event), closed func(*event.Event, error),
) error {
	faults, err := p.t.Applier.Cfg.Catalogue.Open(ctx, p.t.Conn, p.t.Events)
	if err != nil {
		return err
	}
	for _, i := range sealed {
		e := &p.t.Events[i]
		if fault := faults[e.Position]; fault != nil {
			closed(e, fault)
		} else {
			opened(e)
		}
	}
	return nil
}
