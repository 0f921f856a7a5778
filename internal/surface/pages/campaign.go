package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

type campaignPage struct {
	*views.Campaign
	ID     string
	Head   event.Event
	Parked []publications.Parked

	Projections []string
	Archived    *event.Stub // all of the campaign, up to its head; nil: it is in the journal
	Restore     string      // command that brings it back
	PausedHere  bool        // the campaign itself, apart from its groups and projections

	Events []timelineEvent // newest first
	Older  string          // URLs
	Newer  string
	From   int64 // the first and last seq of Events
	Until  int64

	Seq    int64 // position of the slider
	AsOf   *asOf // nil: not requested
	Prev   string
	Next   string
	Latest string
}

// GroupNames returns the names of the consumer groups.
func (c *campaignPage) GroupNames() []string {
	return slice.Of(c.Groups, func(g views.Standing) string { return g.Group })
}

type timelineEvent struct {
	event.Event
	Here bool
}

// campaign shows a campaign's progress, its events and, if a seq is requested, its read models as they
// were then.
func (p *Pages) campaign(ctx context.Context, r *http.Request) (view, error) {
	id, err := required(r, "id")
	if err != nil {
		return view{}, err
	}
	settleSlide(r)
	page := &campaignPage{ID: id}
	if page.Head, err = feed.Head(ctx, p.cfg.Pool, id); err != nil {
		return view{}, fmt.Errorf("campaign %q: %w", short(id), err)
	}
	if stub, ok := feed.StubOf(&page.Head); ok {
		page.Archived, page.Restore = &stub, "tidemark campaign restore "+table.Quote(id)+" --reason …"
	}
	head := page.Head.Seq
	if page.Seq, err = number(r, "seq", head); err != nil {
		return view{}, err
	}
	if page.Seq > head {
		return view{}, problem.New(http.StatusNotFound, "the campaign has no such event yet",
			"choose an earlier one").Of("seq", count(page.Seq), "0 to "+count(head))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	g.Go(func() error { return p.standings(ctx, page) })
	g.Go(func() error { return p.timeline(ctx, r, page) })
	if r.FormValue("seq") != "" {
		g.Go(func() (err error) { page.AsOf, err = p.readAsOf(ctx, id, page.Seq); return err })
	}
	if err := g.Wait(); err != nil {
		return view{}, err
	}
	at := func(seq int64) string { return with(r, "seq", fmt.Sprint(seq)) }
	if page.Seq > 0 {
		page.Prev = at(page.Seq - 1)
	}
	if page.Seq < head {
		page.Next = at(page.Seq + 1)
	}
	if page.Seq < head || page.AsOf == nil {
		page.Latest = at(head)
	}
	return view{Title: short(id), Data: page}, nil
}

func (p *Pages) standings(ctx context.Context, page *campaignPage) error {
	var err error
	if page.Campaign, err = views.ReadCampaign(ctx, p.cfg.Pool, page.Head); err != nil {
		return err
	}
	for _, pa := range page.Pauses {
		page.PausedHere = page.PausedHere || pa.CampaignID == page.ID
	}
	if page.Projections, err = admin.Known(ctx, p.cfg.Pool, "projection"); err != nil {
		return err
	}
	page.Parked, err = publications.ListParked(ctx, p.cfg.Pool, publications.ParkedFilter{
		CampaignID: page.ID,
		Limit:      perPage,
	})
	return err
}

// timeline reads a page of events, the newest first. It ends at the requested seq.
func (p *Pages) timeline(ctx context.Context, r *http.Request, page *campaignPage) error {
	head := page.Head.Seq
	until, err := number(r, "until", min(head, page.Seq+perPage/2))
	if err != nil {
		return err
	}
	until = min(max(until, min(perPage, head)), head)
	from := max(1, until-perPage+1)
	events, _, err := feed.ListCampaign(ctx, p.cfg.Pool, page.ID, from, feed.List{Events: perPage, Bare: true})
	if err != nil && !errors.Is(err, event.ErrArchived) {
		return err
	}
	for _, e := range events {
		if e.Seq <= until {
			page.Events = append(page.Events, timelineEvent{e, e.Seq == page.Seq && r.FormValue("seq") != ""})
		}
	}
	slices.Reverse(page.Events)
	page.From, page.Until = from, until
	if from > 1 {
		page.Older = with(r, "until", fmt.Sprint(from-1)) + "#timeline"
	}
	if until < head {
		page.Newer = with(r, "until", fmt.Sprint(min(head, until+perPage))) + "#timeline"
	}
	return nil
}

// settleSlide resolves the slider's two numbers. Without a script they do not move together; the
// slider counts if it moved and the field beside it did not.
func settleSlide(r *http.Request) {
	q := r.URL.Query()
	if q.Get("was") != "" && q.Get("seq") == q.Get("was") && q.Get("slide") != "" {
		q.Set("seq", q.Get("slide"))
		r.Form.Set("seq", q.Get("slide"))
	}
	q.Del("slide")
	q.Del("was")
	r.URL.RawQuery = q.Encode()
}
