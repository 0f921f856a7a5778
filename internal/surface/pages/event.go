package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

type eventPage struct {
	event.Event
	Payload    shownPayload
	Reached    []reached
	Parked     []publications.Parked
	Prev, Next string
}

type reached struct {
	Projection string
	Status     string
	Behind     bool
}

func (p *Pages) readEvent(ctx context.Context, r *http.Request) (event.Event, error) {
	campaign, err := required(r, "campaign")
	if err != nil {
		return event.Event{}, err
	}
	seq, err := number(r, "seq", 1)
	if err != nil {
		return event.Event{}, err
	}
	e, err := journal.Get(ctx, p.cfg.Pool, campaign, seq)
	if err != nil {
		return e, fmt.Errorf("event %s of campaign %q: %w", count(seq), short(campaign), err)
	}
	return e, nil
}

func (p *Pages) event(ctx context.Context, r *http.Request) (view, error) {
	e, err := p.readEvent(ctx, r)
	if err != nil && !errors.Is(err, event.ErrUnreadable) {
		return view{}, err
	}
	page := &eventPage{Event: e, Payload: showPayload(ctx, p.cfg.Payloads, e)}
	if page.Payload.Hidden {
		page.Tags = nil
	}
	at := func(seq int64) string { return with(r, "seq", fmt.Sprint(seq)) }
	if e.Seq > 1 {
		page.Prev = at(e.Seq - 1)
	}
	_, err = journal.Get(ctx, p.cfg.Pool, e.CampaignID, e.Seq+1)
	switch {
	case err == nil, errors.Is(err, event.ErrUnreadable):
		page.Next = at(e.Seq + 1)
	case !errors.Is(err, event.ErrNotFound):
		return view{}, err
	}
	if page.Reached, err = p.reached(ctx, e); err != nil {
		return view{}, err
	}
	page.Parked, err = publications.ListParked(ctx, p.cfg.Pool,
		publications.ParkedFilter{CampaignID: e.CampaignID, Seq: e.Seq, Limit: perPage})
	return view{Title: fmt.Sprintf("Event %s of %s", count(e.Seq), short(e.CampaignID)), Data: page}, err
}

// applies reports whether a projection applies the event. Without the projection's code in this
// process it returns true, except for audit-only events.
func (p *Pages) applies(pr rebuild.Registered, e event.Event) bool {
	if e.Intent == event.AuditOnly {
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

func (p *Pages) reached(ctx context.Context, e event.Event) ([]reached, error) {
	projections, err := rebuild.Projections(ctx, p.cfg.Pool)
	if err != nil {
		return nil, err
	}
	places, err := lease.Places(ctx, p.cfg.Pool, e.CampaignID)
	if err != nil {
		return nil, err
	}
	pairs, err := failed.List(ctx, p.cfg.Pool, failed.Filter{CampaignID: e.CampaignID, Limit: 1000})
	if err != nil {
		return nil, err
	}
	checkpoints, behind := map[string]int64{}, map[string]failed.Campaign{}
	for _, pl := range places {
		checkpoints[pl.Group] = pl.Checkpoint
	}
	for _, pair := range pairs {
		behind[pair.Projection] = pair
	}
	var out []reached
	for _, pr := range projections {
		s := reached{Projection: pr.Name, Status: "pending"}
		pair, failedHere := behind[pr.Name]
		switch {
		case failedHere && pair.NextSeq == e.Seq:
			s.Status, s.Behind = string(pair.Status), true
		case failedHere && pair.NextSeq < e.Seq:
			s.Status, s.Behind = "behind", true
		case !p.applies(pr, e):
			s.Status = "not for it"
		case checkpoints[pr.Group] >= e.Seq:
			s.Status = "done"
		}
		out = append(out, s)
	}
	return out, nil
}

// shownPayload is the part of an event's payload and metadata that a user may see.
type shownPayload struct {
	Hidden   bool // from this role
	Text     text
	Metadata *text
}

func showPayload(ctx context.Context, rule payload.Rule, e event.Event) shownPayload {
	id := auth.From(ctx)
	if unreadable := e.Unreadable(); unreadable != nil {
		return shownPayload{Text: block(unreadable.Error())}
	}
	if !rule.Sees(id) {
		return shownPayload{Hidden: true}
	}
	raw := rule.Show(id, e.Payload)
	out := shownPayload{Text: blockJSON(raw)}
	if out.Text.Cut {
		out.Text.Whole, _ = link("/event/payload", "campaign", e.CampaignID, "seq", e.Seq)
	}
	if meta := strings.TrimSpace(string(e.Metadata)); meta != "" && meta != "{}" && meta != "null" {
		out.Metadata = new(blockJSON(rule.Show(id, e.Metadata)))
	}
	return out
}

// servePayload serves a whole payload as plain text that browsers do not interpret.
func (p *Pages) servePayload(w http.ResponseWriter, r *http.Request) {
	e, err := p.readEvent(r.Context(), r)
	if err == nil {
		if id := auth.From(r.Context()); p.cfg.Payloads.Sees(id) {
			h := w.Header()
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-store")
			_, _ = w.Write(p.cfg.Payloads.Show(id, e.Payload))
			return
		}
		err = problem.New(http.StatusForbidden, "payloads are hidden from this role", "ask an operator")
	}
	p.write(r.Context(), w, r, p.failed(r.Context(), err))
}

// short returns a name cut to 60 characters, for titles.
func short(s string) string {
	runes := []rune(s)
	if len(runes) <= 60 {
		return s
	}
	return string(runes[:60]) + "…"
}
