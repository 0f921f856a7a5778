package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

func (a *API) publisherRoutes() []Route {
	acts := a.cfg.Acts
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
		does("/publishers/{topic}/{publisher}/pause", "pausePublisher", admin.ActPausePublisher,
			act(a, func(r *http.Request, by admin.Request, b forBody) (*admin.Outcome, error) {
				d, err := span("for", b.For)
				if err != nil {
					return nil, err
				}
				return acts.PausePublisher(r.Context(), by, publicationOf(r), d)
			})),
		does("/publishers/{topic}/{publisher}/resume", "resumePublisher", admin.ActResumePublisher,
			act(a, func(r *http.Request, by admin.Request, _ none) (*admin.Outcome, error) {
				return acts.ResumePublisher(r.Context(), by, publicationOf(r))
			})),
		does("/publishers/{topic}/{publisher}/reset", "resetPublisher", admin.ActResetPublisher, act(a, a.reset)),
		does("/publishers/{topic}/{publisher}/test-send", "testSend", admin.ActTestSend,
			act(a, func(r *http.Request, by admin.Request, b sendBody) (*admin.Outcome, error) {
				if b == (sendBody{}) {
					return acts.TestSend(r.Context(), by, publicationOf(r))
				}
				if b.CampaignID == "" || b.Seq < 1 {
					return nil, problem.New(http.StatusBadRequest, "an event of the journal has a campaign and a seq",
						"name both, or neither for an event that is made up").Of("seq", strconv.FormatInt(b.Seq, 10), "1 or more")
				}
				return acts.SendEvent(r.Context(), by, publicationOf(r), b.CampaignID, b.Seq)
			})),
		does("/publishers/{topic}/{publisher}/replay", "republish", admin.ActStartOperation,
			act(a, func(r *http.Request, by admin.Request, b republishBody) (*admin.Outcome, error) {
				key := publicationOf(r)
				p := admin.Republication{
					Topic: key.Topic, Publisher: key.Publisher, CampaignID: b.CampaignID, From: b.From,
					Until: b.Until,
				}
				if b.DryRun {
					return operator.Would(acts.PreviewRepublication(r.Context(), by, p))
				}
				by.Confirm = b.Confirm
				return acts.StartRepublication(r.Context(), by, p)
			})),
		does("/parked/{topic}/{publisher}/{campaign}/{seq}/retry", "retryParked", admin.ActRetryParked,
			act(a, func(r *http.Request, by admin.Request, _ none) (*admin.Outcome, error) {
				seq, err := place(r, "seq")
				if err != nil {
					return nil, err
				}
				return acts.RetryParked(r.Context(), by, publicationOf(r), r.PathValue("campaign"), seq)
			})),
		does("/parked/{topic}/{publisher}/{campaign}/{seq}/resolve", "resolveParked", admin.ActResolveParked,
			act(a, func(r *http.Request, by admin.Request, b typedBody) (*admin.Outcome, error) {
				seq, err := place(r, "seq")
				if err != nil {
					return nil, err
				}
				by.Confirm = b.Confirm
				return acts.ResolveParked(r.Context(), by, publicationOf(r), r.PathValue("campaign"), seq)
			})),
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

// resetBody says where a pair goes: to a position, to a time, or, with neither, nowhere, and only forgets its errors.
type resetBody struct {
	Position *int64     `json:"position"`
	Time     *time.Time `json:"time"`
	Confirm  string     `json:"confirm"`
	DryRun   bool       `json:"dry_run"`
}

func (a *API) reset(r *http.Request, by admin.Request, b resetBody) (*admin.Outcome, error) {
	if b.Position != nil && b.Time != nil {
		return nil, problem.New(http.StatusBadRequest, "both a position and a time are named", "name one of them")
	}
	to := publications.ResetTo{Position: b.Position}
	if b.Time != nil {
		to.Time = *b.Time
	}
	if !b.DryRun {
		by.Confirm = b.Confirm
		return a.cfg.Acts.ResetPublisher(r.Context(), by, publicationOf(r), to)
	}
	return operator.Would(a.cfg.Acts.PreviewReset(r.Context(), by, publicationOf(r), to))
}

// sendBody names an event of the journal; empty: one is made up.
type sendBody struct {
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq"`
}

type republishBody struct {
	CampaignID string `json:"campaign_id"`
	From       int64  `json:"from"`
	Until      int64  `json:"until"`
	Confirm    string `json:"confirm"`
	DryRun     bool   `json:"dry_run"`
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
