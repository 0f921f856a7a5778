package views

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

const (
	campaignRecords = 20   // records of the log
	campaignFailed  = 1000 // failed projections
)

// Campaign is the state of one campaign.
type Campaign struct {
	CampaignID  string
	Head        Head
	Groups      []Standing // one per consumer group
	Failed      []failed.Campaign
	Pauses      []pause.Pause // that stop the campaign
	History     []failed.Record
	Resolutions []lookback.Resolution
}

// Head is the last event of a campaign.
type Head struct {
	Seq, Position int64
	Type          string
	RecordedAt    time.Time
}

// Standing is the place of a consumer group in a campaign. Generation 0: never claimed.
type Standing struct {
	lease.Place
	Behind int64 // events
}

// ReadCampaign returns the state of the campaign whose last event is head.
func ReadCampaign(ctx context.Context, pool *pgxpool.Pool, head event.Event) (*Campaign, error) {
	id := head.CampaignID
	c := &Campaign{CampaignID: id, Head: Head{head.Seq, head.Position, head.Type, head.RecordedAt}}
	groups, err := outbox.Groups(ctx, pool)
	if err != nil {
		return nil, err
	}
	places, err := lease.Places(ctx, pool, id)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		s := Standing{lease.Place{Group: g.Name}, head.Seq}
		for _, p := range places {
			if p.Group == g.Name {
				s = Standing{p, max(0, head.Seq-p.Checkpoint)}
			}
		}
		c.Groups = append(c.Groups, s)
	}
	if c.Failed, err = failed.List(ctx, pool, failed.Filter{CampaignID: id, Limit: campaignFailed}); err != nil {
		return nil, err
	}
	pauses, err := pause.List(ctx, pool, "", nil, 0)
	if err != nil {
		return nil, err
	}
	c.Pauses = slices.DeleteFunc(pauses, func(p pause.Pause) bool { return p.CampaignID != "" && p.CampaignID != id })
	if c.Resolutions, err = failed.Resolutions(ctx, pool, failed.ResolutionFilter{CampaignID: id}); err != nil {
		return nil, err
	}
	c.History, err = failed.History(ctx, pool, failed.LogFilter{CampaignID: id, Limit: campaignRecords})
	return c, err
}
