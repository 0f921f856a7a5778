package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func (a *API) deferredRoutes() []Route {
	return []Route{
		a.reads("/failed", "listFailed", a.deferred),
		a.reads("/failed-stats", "getFailedStats", a.deferredStats),
		a.reads("/failed-log", "listFailedLog", a.deferredLog),
		a.reads("/failed/{projection}/{campaign}", "getFailed", func(r *http.Request) (any, error) {
			d, err := deferred.Show(r.Context(), a.cfg.Pool, pairOf(r))
			if err == nil && d.Event != nil {
				*d.Event = a.event(r, *d.Event)
			}
			return operator.One(d), err
		}),
		a.reads("/resolutions", "listResolutions", a.resolutions),
	}
}

func (a *API) resolutions(r *http.Request) (any, error) {
	q := parameters(r)
	f := deferred.ResolutionFilter{Projection: q.text("projection"), CampaignID: q.text("campaign"), Limit: q.limit()}
	var after deferred.Resolution
	if q.after(&after) {
		f.After = &after
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	resolutions, err := deferred.Resolutions(r.Context(), a.cfg.Pool, f)
	if err != nil {
		return nil, err
	}
	return list(resolutions, f.Limit, func(last deferred.Resolution) any {
		return deferred.Resolution{CampaignID: last.CampaignID, Projection: last.Projection, Seq: last.Seq}
	}), nil
}

// seqBody names the event that a pair stands before, or that is resolved.

func pairOf(r *http.Request) deferred.Key {
	return deferred.Key{Projection: r.PathValue("projection"), CampaignID: r.PathValue("campaign")}
}

// pairFilter reads the parameters that choose pairs.
func pairFilter(q *query) deferred.Filter {
	f := deferred.Filter{
		Group: q.text("group"), Projection: q.text("projection"), CampaignID: q.text("campaign"),
		EventType: q.text("event_type"), Class: string(choice(q, "class", failure.Classes())), Code: q.text("code"),
		Fingerprint: q.text("fingerprint"), MessagePattern: q.text("message"), OlderThan: q.duration("older_than"),
		NewerThan: q.duration("newer_than"),
	}
	f.Status = choices(q, "status", deferred.Statuses())
	return f
}

func (a *API) deferred(r *http.Request) (any, error) {
	q := parameters(r)
	f := pairFilter(q)
	f.Limit = q.limit()
	var at deferred.Place
	if q.after(&at) {
		f.After = &at
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	pairs, err := deferred.List(r.Context(), a.cfg.Pool, f)
	if err != nil {
		return nil, err
	}
	return list(pairs, f.Limit, func(last deferred.Pair) any { return last.Place() }), nil
}

func (a *API) deferredStats(r *http.Request) (any, error) {
	q := parameters(r)
	f := pairFilter(q)
	if err := q.done(); err != nil {
		return nil, err
	}
	s, err := deferred.Stats(r.Context(), a.cfg.Pool, f)
	return operator.One(s), err
}

func (a *API) deferredLog(r *http.Request) (any, error) {
	q := parameters(r)
	f := deferred.LogFilter{
		Group: q.text("group"), Projection: q.text("projection"), CampaignID: q.text("campaign"),
		Fingerprint: q.text("fingerprint"), Actor: q.text("by"), Acts: choices(q, "act", deferred.Acts()), Limit: q.limit(),
	}
	q.after(&f.Before)
	if err := q.done(); err != nil {
		return nil, err
	}
	records, err := deferred.History(r.Context(), a.cfg.Pool, f)
	if err != nil {
		return nil, err
	}
	return list(records, f.Limit, func(last deferred.Record) any { return last.ID }), nil
}

// event is an event as its reader may see it: without payload, metadata and tags for roles that see no payloads.
func (a *API) event(r *http.Request, e journal.Event) journal.Event {
	id := auth.From(r.Context())
	e.Payload, e.Metadata = a.cfg.Payloads.Show(id, e.Payload), a.cfg.Payloads.Show(id, e.Metadata)
	if !a.cfg.Payloads.Sees(id) {
		e.Tags = nil // they have values as payloads do
	}
	return e
}
