package operator

import (
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Publication names a topic and a publisher, for acts and views. Without a topic the command line means
// all of the publisher's.
type Publication struct {
	Publisher string `arg:"PUBLISHER" of:"publisher" help:"the publisher"`
	Topic     string `of:"topic" help:"only this topic of the publisher (default all)"`
}

// Key returns the key of the pair.
func (p Publication) Key() publications.Key {
	return publications.Key{Topic: p.Topic, Publisher: p.Publisher}
}

// Said names the publication in messages.
func (p Publication) Said() string {
	if p.Topic == "" {
		return p.Publisher
	}
	return p.Topic + "/" + p.Publisher
}

// FailedCampaign names a campaign of a projection, for acts and views.
type FailedCampaign struct {
	Projection string `arg:"PROJECTION" of:"projection" help:"the projection"`
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"failed" help:"the campaign"`
}

// Key returns the key of the failed campaign.
func (f FailedCampaign) Key() failed.Key {
	return failed.Key{Projection: f.Projection, CampaignID: f.CampaignID}
}

// Scheduled names a scheduled append, for acts and views.
type Scheduled struct {
	ID int64 `arg:"ID" min:"1" help:"the append's number"`
}

// Operation names an operation, for acts and views.
type Operation struct {
	ID int64 `arg:"ID" min:"1" of:"operation" help:"the operation's number"`
}
