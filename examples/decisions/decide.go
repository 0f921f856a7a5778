package decisions

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Decide updates the models and appends the events that rule decides. It retries when another
// append got ahead.
func Decide(
	ctx context.Context, pool *pgxpool.Pool, rule func() ([]event.Event, error), models ...journal.Folder,
) error {
	_, err := journal.Journal{Retry: journal.Retry{Attempts: 50}}.CommitIf(ctx, pool,
		func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
			condition, err := journal.DecideAll(ctx, db, models...)
			if err != nil {
				return nil, condition, err
			}
			events, err := rule()
			return events, condition, err
		})
	return err
}

// Event returns an event of a campaign with a payload.
func Event(campaign, eventType string, payload map[string]any, tags ...string) event.Event {
	if payload == nil {
		payload = map[string]any{}
	}
	encoded, _ := json.Marshal(payload) // text, numbers and times: cannot fail
	return event.Event{CampaignID: campaign, Type: eventType, Tags: tags, Payload: encoded}
}

// Number returns a number in an event's payload, 0 if the field is missing.
func Number(e event.Event, field string) (int, error) {
	payload, err := event.Decode[map[string]any](e)
	number, _ := payload[field].(float64)
	return int(number), err
}
