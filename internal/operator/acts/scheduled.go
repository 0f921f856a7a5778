package acts

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

type cancelled struct {
	CampaignID string `json:"campaign_id"`
	Due        string `json:"due_at"`
	EventType  string `json:"event_type"` // of the first event
}

func scheduledActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActCancelScheduled, Name: "cancelScheduled", Command: "scheduled cancel",
			Path:  "/scheduled/{id}/cancel",
			Short: "Cancel a scheduled append: its events are never appended",
			Long: "Cancel a scheduled append: its events are never appended. If a worker is making the append, the " +
				"command waits for the outcome. It asks for the append's number.",
			Examples: []string{"scheduled cancel 7 --reason 'the hold was bought'"},
			Button:   "Cancel", Role: auth.Admin, Danger: true, Confirms: true, Logs: true,
		}, func(in *operator.Scheduled, d *does) {
			d.Typed = fmt.Sprint(in.ID)
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				a, err := scheduled.Cancel(ctx, tx, in.ID, scheduled.Actor{
					Name: by.Who.Name, Reason: by.Reason, Way: by.Who.Way, TokenID: by.Who.TokenID, Address: by.Who.Address,
				})
				return cancelled{a.CampaignID, a.DueAt.UTC().Format("2006-01-02T15:04:05Z"), a.EventType}, err
			}
			d.Told = func(done *admin.Outcome) Told {
				c := detail[cancelled](done)
				return Told{
					fmt.Sprintf("Scheduled append %d to campaign %s is cancelled.", in.ID, c.CampaignID),
					[]string{"scheduled", "list"},
				}
			}
		}),
	}
}
