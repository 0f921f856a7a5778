package publisher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// ParkedPlace is a place in the order of [WalkParked].
type ParkedPlace struct {
	Topic, Publisher, CampaignID string
	Seq                          int64
	Holds                        bool
}

// Place answers where the row stands in the order of [WalkParked].
func (p Parked) Place() ParkedPlace {
	return ParkedPlace{Topic: p.Topic, Publisher: p.Publisher, CampaignID: p.CampaignID, Seq: p.Seq, Holds: p.Holds}
}

// WalkParked answers up to f.Limit rows (0: 100) after a place (nil: from the first), in the order of topic, publisher, campaign and seq. Of the next look rows it answers
// those that match, so that it costs no more when millions are parked. end is the place to go on from; nil: there are no more rows.
func WalkParked(ctx context.Context, db journal.Querier, f ParkedFilter, after *ParkedPlace, look int) (parked []Parked, end *ParkedPlace, err error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	from := ParkedPlace{Topic: f.Topic, Publisher: f.Publisher}
	if after != nil {
		from = *after
	}
	rows, err := db.Query(ctx, queryWalkParked, f.Topic, f.Publisher, f.CampaignID, f.EventType, f.Status, from.Topic, from.Publisher, from.CampaignID, from.Seq, from.Holds, look)
	if err != nil {
		return nil, nil, fmt.Errorf("walk parked events: %w", err)
	}
	looked := 0
	var p Parked
	var matches bool
	_, err = pgx.ForEachRow(rows, []any{
		&matches, &p.Topic, &p.Publisher, &p.CampaignID, &p.Seq, &p.Holds, &p.Position, &p.Status, &p.Attempts, &p.NextAttemptAt, &p.EventID, &p.EventType, &p.Message,
		&p.FirstFailedAt, &p.LastFailedAt,
	}, func() error {
		looked++
		place := p.Place()
		if matches && len(parked) < f.Limit {
			parked = append(parked, p)
			end = &place
		} else if len(parked) < f.Limit {
			end = &place
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("walk parked events: %w", err)
	}
	if looked < look && len(parked) < f.Limit {
		end = nil
	}
	return parked, end, nil
}
