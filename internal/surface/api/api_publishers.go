package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

func (a *API) publisherRoutes() []Route {
	return []Route{
		a.reads("/publishers", "listPublishers", func(r *http.Request) (any, error) {
			q := parameters(r)
			key := publications.Key{Topic: q.text("topic"), Publisher: q.text("publisher")}
			if err := q.done(); err != nil {
				return nil, err
			}
			pairs, err := publications.List(r.Context(), a.cfg.Pool, key)
			return all(pairs), err
		}),
		a.reads("/publishers/{topic}/{publisher}", "getPublisher", func(r *http.Request) (any, error) {
			return a.publication(r)
		}),
		a.reads("/publishers/{topic}/{publisher}/lag", "getPublisherLag", func(r *http.Request) (any, error) {
			p, err := a.publication(r)
			if err != nil {
				return nil, err
			}
			object, _ := p.(operator.Single).Item.(map[string]any)
			return operator.One(map[string]any{
				"position": object["position"], "behind": object["behind"],
				"lag_seconds": object["lag_seconds"],
			}), nil
		}),
		a.reads("/publishers/{topic}/{publisher}/ghosts", "listGhosts", a.ghosts),
		a.reads("/parked", "listParked", a.parked),
	}
}

func publicationOf(r *http.Request) publications.Key {
	return publications.Key{Topic: r.PathValue("topic"), Publisher: r.PathValue("publisher")}
}

func (a *API) publication(r *http.Request) (any, error) {
	pairs, err := publications.List(r.Context(), a.cfg.Pool, publicationOf(r))
	if err == nil && len(pairs) == 0 {
		err = fmt.Errorf("%s: %w", publicationOf(r), publications.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return operator.One(pairs[0]), nil
}

// ghostPlace is a place in the list of a pair's ghosts.
type ghostPlace struct {
	Position   int64
	CampaignID string
	EventID    uuid.UUID
}

func (a *API) ghosts(r *http.Request) (any, error) {
	q, key := parameters(r), publicationOf(r)
	f := publications.GhostFilter{Topic: key.Topic, Publisher: key.Publisher, Limit: q.limit()}
	var at ghostPlace
	if q.after(&at) {
		f.After = &publications.Ghost{Key: key, Position: at.Position, CampaignID: at.CampaignID, EventID: at.EventID}
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	if _, err := a.publication(r); err != nil {
		return nil, err
	}
	ghosts, err := publications.ListGhosts(r.Context(), a.cfg.Pool, f)
	if err != nil {
		return nil, err
	}
	return list(ghosts, f.Limit, func(g publications.Ghost) any {
		return ghostPlace{g.Position, g.CampaignID, g.EventID}
	}), nil
}

// parkedPlace is a place in the list of parked events.
type parkedPlace struct {
	At         *time.Time
	Topic      string
	Publisher  string
	CampaignID string
	Seq        int64
}

func (a *API) parked(r *http.Request) (any, error) {
	q := parameters(r)
	f := publications.ParkedFilter{
		Topic: q.text("topic"), Publisher: q.text("publisher"), CampaignID: q.text("campaign"),
		EventType: q.text("event_type"), Status: choice(q, "status", publications.ParkedStatuses()),
		MessagePattern: q.text("message"), Limit: q.limit(),
	}
	var at parkedPlace
	if q.after(&at) {
		f.After = &publications.Parked{
			FirstFailedAt: at.At, Topic: at.Topic, Publisher: at.Publisher,
			CampaignID: at.CampaignID, Seq: at.Seq,
		}
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	parked, err := publications.ListParked(r.Context(), a.cfg.Pool, f)
	if err != nil {
		return nil, err
	}
	return list(parked, f.Limit, func(p publications.Parked) any {
		return parkedPlace{p.FirstFailedAt, p.Topic, p.Publisher, p.CampaignID, p.Seq}
	}), nil
}
