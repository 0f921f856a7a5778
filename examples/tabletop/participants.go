package tabletop

import (
	"context"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

const participantsTable = `
CREATE TABLE participants (
    campaign_id    text COLLATE "C" NOT NULL,
    participant_id text COLLATE "C" NOT NULL,
    name           text             NOT NULL,
    role           text             NOT NULL,
    seat           integer,
    joined_at      timestamptz      NOT NULL,
    left_at        timestamptz,
    PRIMARY KEY (campaign_id, participant_id),
    UNIQUE (campaign_id, seat)
)`

// Participants is a projection with typed handlers: the seats, with present and past participants.
func Participants() projection.Projection {
	return projection.Handlers{
		Name: "participants", Version: 1, Tables: participantsTable,
		On: []projection.Handler{
			projection.Handle(ParticipantJoinedType, func(_ context.Context, g *projection.Group, e event.Event,
				p ParticipantJoined,
			) error {
				g.Queue(`INSERT INTO participants (campaign_id, participant_id, name, role, seat, joined_at)
			VALUES ($1, $2, $3, $4, $5, $6)`,
					e.CampaignID, p.ParticipantID, p.Name, p.Role, p.Seat, e.OccurredAt)
				return nil
			}),
			projection.Handle(ParticipantSeatChangedType, func(_ context.Context, g *projection.Group, e event.Event,
				p ParticipantSeatChanged,
			) error {
				g.Queue(`UPDATE participants SET seat = $3 WHERE campaign_id = $1 AND participant_id = $2`,
					e.CampaignID, p.ParticipantID, p.Seat)
				return nil
			}),
			projection.Handle(ParticipantLeftType, func(_ context.Context, g *projection.Group, e event.Event,
				p ParticipantLeft,
			) error {
				g.Queue(`UPDATE participants SET seat = NULL, left_at = $3 WHERE campaign_id = $1 AND participant_id = $2`,
					e.CampaignID, p.ParticipantID, e.OccurredAt)
				return nil
			}),
		},
	}
}
