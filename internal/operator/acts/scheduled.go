package acts

import (
	"context"
	"fmt"
	"time"

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

type moved struct {
	CampaignID string `json:"campaign_id"`
	Due        string `json:"due_at"`
	WasDue     string `json:"was_due_at"`
	EventType  string `json:"event_type"` // of the first event
}

type moves struct {
	operator.Scheduled
	Due time.Time `required:"true" help:"the new time, such as 2026-01-31T08:00:00Z; a past one: at once"`
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

func logged(by admin.Request) scheduled.Actor {
	return scheduled.Actor{
		Name: by.Who.Name, Reason: by.Reason, Way: by.Who.Way, TokenID: by.Who.TokenID, Address: by.Who.Address,
	}
}

func scheduledActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActReschedule, Name: "reschedule", Command: "scheduled reschedule", Path: "/scheduled/{id}/reschedule",
			Short: "Move a scheduled append to another time",
			Long: "Move a scheduled append to another time. Its number and events stay, and a refused append begins " +
				"anew. If a worker is making the append, the command waits for the outcome.",
			Examples: []string{"scheduled reschedule 7 --due 2026-12-01T08:00:00Z --reason 'the hold is longer'"},
			Button:   "Reschedule", Role: auth.Admin, Logs: true,
		}, func(in *moves, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				a, err := scheduled.Reschedule(ctx, tx, in.ID, in.Due, logged(by))
				return moved{a.CampaignID, stamp(in.Due), stamp(a.DueAt), a.EventType}, err
			}
			d.Told = func(done *admin.Outcome) Told {
				m := detail[moved](done)
				return Told{
					fmt.Sprintf("Scheduled append %d to campaign %s is due at %s. It was due at %s.", in.ID, m.CampaignID,
						m.Due, m.WasDue),
					[]string{"scheduled", "show", fmt.Sprint(in.ID)},
				}
			}
		}),
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
				a, err := scheduled.Cancel(ctx, tx, in.ID, logged(by))
				return cancelled{a.CampaignID, stamp(a.DueAt), a.EventType}, err
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
