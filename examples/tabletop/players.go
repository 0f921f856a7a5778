package tabletop

import (
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// PlayerPage is a row of the table players: what a person has done at the tables of all campaigns.
type PlayerPage struct {
	Invites int     `json:"invites"`
	Joined  int     `json:"joined"`
	Tables  []Table `json:"tables"` // the last tablesShown that the person has joined, latest first
}

// Table is a table that a person has joined.
type Table struct {
	CampaignID string `json:"campaign_id"`
	Role       Role   `json:"role"`
}

const tablesShown = 5

// Players is a document projection across campaigns: a page for each person. The order of the tables
// is that of the journal, so a rebuild gives the same pages.
func Players() projection.Document[PlayerPage] {
	return projection.Document[PlayerPage]{
		Name:    "players",
		Version: 1,
		Types:   []string{ParticipantJoinedType, InviteCreatedType},
		Scope:   projection.ScopeJournal,
		Key: func(e event.Event) (string, error) {
			p, err := event.Decode[struct{ Name, Recipient string }](e)
			return p.Name + p.Recipient, err // an event has one of them
		},
		Fold: (*PlayerPage).fold,
	}
}

func (p *PlayerPage) fold(e event.Event) error {
	if e.Type == InviteCreatedType {
		p.Invites++
		return nil
	}
	joined, err := event.Decode[ParticipantJoined](e)
	p.Joined++
	p.Tables = append([]Table{{CampaignID: e.CampaignID, Role: joined.Role}}, p.Tables...)
	p.Tables = p.Tables[:min(tablesShown, len(p.Tables))]
	return err
}
