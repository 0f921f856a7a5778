package tabletop

import (
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Campaign is a row of the table campaigns: one document for each campaign.
type Campaign struct {
	Name         string `json:"name"`
	System       string `json:"system"`
	Theme        string `json:"theme,omitempty"`
	Status       Status `json:"status"`
	ForkedFrom   string `json:"forked_from,omitempty"`
	Participants int    `json:"participants"` // at the table now
	Characters   int    `json:"characters"`   // in play now
	Sessions     int    `json:"sessions"`     // started so far
	Events       int    `json:"events"`       // applied to this document
}

// Campaigns is a document projection: a campaign and its counts.
func Campaigns() projection.Projection {
	return projection.Document[Campaign]{
		Name:    "campaigns",
		Version: 1,
		Types:   projectedTypes(),
		Columns: "name text GENERATED ALWAYS AS (doc->>'name') STORED, status text GENERATED ALWAYS AS (doc->>'status') " +
			"STORED",
		Indexes: "CREATE INDEX ON campaigns (status)",
		Fold:    (*Campaign).fold,
	}
}

func (c *Campaign) fold(e event.Event) error {
	c.Events++
	switch e.Type {
	case CampaignCreatedType:
		p, err := event.Decode[CampaignCreated](e)
		c.Name, c.System, c.Status = p.Name, p.System, Draft
		return err
	case CampaignUpdatedType:
		p, err := event.Decode[CampaignUpdated](e)
		if p.Name != nil {
			c.Name = *p.Name
		}
		if p.Theme != nil {
			c.Theme = *p.Theme
		}
		return err
	case CampaignForkedType:
		p, err := event.Decode[CampaignForked](e)
		c.ForkedFrom = p.SourceCampaignID
		return err
	case CampaignStatusChangedType:
		p, err := event.Decode[CampaignStatusChanged](e)
		c.Status = p.To
		return err
	case ParticipantJoinedType:
		c.Participants++
	case ParticipantLeftType:
		c.Participants--
	case CharacterCreatedType:
		c.Characters++
	case CharacterDeletedType:
		c.Characters--
	case SessionStartedType:
		c.Sessions++
	}
	return nil
}
