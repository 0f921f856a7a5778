package pages

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Notices are, by the position of an erasure's notice, the kinds of events that it is about: their campaign,
// current type, intent, and those of their tags that were asked for.
type Notices map[int64][]event.Event

// ReadNotices returns the notices among events. It asks the database only if one may be there. tags are
// those that the caller asks for.
func ReadNotices(
	ctx context.Context, db event.Querier, types *catalogue.Catalogue, events []event.Event, tags []string,
) (notices Notices, err error) {
	campaigns, positions := map[int64]string{}, []int64{}
	for i := range events {
		if e := &events[i]; e.Type == feed.Notice {
			campaigns[e.Position], positions = e.CampaignID, append(positions, e.Position)
		}
	}
	if len(positions) == 0 {
		return nil, nil
	}
	notices = Notices{}
	var position int64
	var kind, intent string
	var had []string
	rows, err := db.Query(ctx, queryNotices, positions, append([]string{}, tags...))
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&position, &kind, &intent, &had}, func() error {
			notices[position] = append(notices[position], event.Event{
				CampaignID: campaigns[position], Type: types.Names(kind)[0], Intent: event.Intent(intent), Tags: had,
			})
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read notices of erasures: %w", err)
	}
	return notices, nil
}
