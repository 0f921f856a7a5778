package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

type eventPage struct {
	journal.Event
	Payload    shownPayload
	Reached    []reached
	Parked     []publications.Parked
	Prev, Next string
}

// reached says what has become of the event in a projection.
type reached struct {
	Projection string
	Status     string
	Deferred   bool
}

func (p *Pages) event(ctx context.Context, r *http.Request) (journal.Event, error) {
	campaign, err := required(r, "campaign")
	if err != nil {
		return journal.Event{}, err
	}
	seq, err := number(r, "seq", 1)
	if err != nil {
		return journal.Event{}, err
	}
	e, err := journal.Get(ctx, p.cfg.Pool, campaign, seq)
	if err != nil {
		return e, fmt.Errorf("event %s of campaign %q: %w", count(seq), short(campaign), err)
	}
	return e, nil
}

// readEvent shows an event, and how far it has got.
func (p *Pages) readEvent(ctx context.Context, r *http.Request) (view, error) {
	e, err := p.event(ctx, r)
	if err != nil && !errors.Is(err, journal.ErrUnreadable) {
		return view{}, err
	}
	page := &eventPage{Event: e, Payload: p.payloadOf(ctx, e)}
	if page.Payload.Hidden {
		page.Tags = nil
	}
	at := func(seq int64) string { return with(r, "seq", fmt.Sprint(seq)) }
	if e.Seq > 1 {
		page.Prev = at(e.Seq - 1)
	}
	_, err = journal.Get(ctx, p.cfg.Pool, e.CampaignID, e.Seq+1)
	switch {
	case err == nil, errors.Is(err, journal.ErrUnreadable):
		page.Next = at(e.Seq + 1)
	case !errors.Is(err, journal.ErrNotFound):
		return view{}, err
	}
	if page.Reached, err = p.readReached(ctx, e); err != nil {
		return view{}, err
	}
	page.Parked, err = publications.ListParked(ctx, p.cfg.Pool,
		publications.ParkedFilter{CampaignID: e.CampaignID, Seq: e.Seq, Limit: perPage})
	return view{Name: "event", Title: fmt.Sprintf("Event %s of %s", count(e.Seq), short(e.CampaignID)), Data: page}, err
}

// takes says whether a projection applies events of this kind, as far as this process has its code.
func (p *Pages) takes(pr rebuild.Registered, e journal.Event) bool {
	if e.Intent == journal.AuditOnly {
		return false
	}
	if p.cfg.Catalogue != nil {
		if current, err := p.cfg.Catalogue.Current(e); err == nil {
			e = current
		}
	}
	for _, code := range p.cfg.Projections {
		if s := code.Spec(); s.Name == registry.ProjectionOf(pr.Name) && s.Version == pr.Version && len(s.Types) > 0 {
			return slices.Contains(s.Types, e.Type)
		}
	}
	return true
}

func (p *Pages) readReached(ctx context.Context, e journal.Event) ([]reached, error) {
	projections, err := rebuild.Projections(ctx, p.cfg.Pool)
	if err != nil {
		return nil, err
	}
	places, err := lease.Places(ctx, p.cfg.Pool, e.CampaignID)
	if err != nil {
		return nil, err
	}
	pairs, err := deferred.List(ctx, p.cfg.Pool, deferred.Filter{CampaignID: e.CampaignID, Limit: 1000})
	if err != nil {
		return nil, err
	}
	checkpoints, behind := map[string]int64{}, map[string]deferred.Pair{}
	for _, pl := range places {
		checkpoints[pl.Group] = pl.Checkpoint
	}
	for _, pair := range pairs {
		behind[pair.Projection] = pair
	}
	var out []reached
	for _, pr := range projections {
		s := reached{Projection: pr.Name, Status: "pending"}
		pair, deferredHere := behind[pr.Name]
		switch {
		case deferredHere && pair.NextSeq == e.Seq:
			s.Status, s.Deferred = string(pair.Status), true
		case deferredHere && pair.NextSeq < e.Seq:
			s.Status, s.Deferred = "behind", true
		case !p.takes(pr, e):
			s.Status = "not for it"
		case checkpoints[pr.Group] >= e.Seq:
			s.Status = "done"
		}
		out = append(out, s)
	}
	return out, nil
}
