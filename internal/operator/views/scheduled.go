package views

import (
	"context"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

type scheduledList struct {
	CampaignID string `name:"campaign" of:"campaign" help:"only appends to this campaign"`
	Refused    bool   `help:"only appends that were refused and are retried"`
	limited
	After *scheduled.Place `page:"after"`
}

type scheduledAppend struct {
	scheduled.Append
	Content []event.Event
}

func scheduledViews() []*View {
	return []*View{
		list(View{
			Name: "listScheduled", Command: "scheduled list", Path: "/scheduled", Schema: "ScheduledAppend",
			Short: "List appends that are still to be made, in the order in which workers try them",
			Long: "List appends that are still to be made, in the order in which workers try them. NEXT is later than " +
				"DUE after a refusal. BY is the process that scheduled the append, or - for an application.",
			Examples: []string{"scheduled list --campaign seat-7", "scheduled list --refused --json"},
			Empty:    "No matching scheduled appends.",
		}, lists[*scheduledList, scheduled.Append]{
			Read: func(ctx context.Context, from Reader, in *scheduledList) ([]scheduled.Append, any, error) {
				found, err := scheduled.List(ctx, from.Pool, scheduled.Filter{
					CampaignID: in.CampaignID, Refused: in.Refused, After: in.After, Limit: in.Limit,
				})
				return found, nextOf(found, in.Limit, scheduled.Append.Place), err
			},
			Columns: "ID|CAMPAIGN|DUE|EVENTS|TYPE|BY|ATTEMPTS|NEXT|ERROR",
			Row: func(a scheduled.Append) []table.Cell {
				return table.Row(a.ID, a.CampaignID, a.DueAt, a.Events, a.EventType, table.OrDash(a.ScheduledBy),
					table.Number(int64(a.Attempts), table.Warning), a.AttemptAt, a.Error)
			},
		}),
		one(View{
			Name: "getScheduled", Command: "scheduled show", Path: "/scheduled/{id}", Schema: "ScheduledDetail",
			Short:    "Show a scheduled append and its events, up to 100",
			Examples: []string{"scheduled show 7", "scheduled show 7 --json"},
		}, func(ctx context.Context, from Reader, in *operator.Scheduled) (scheduledAppend, error) {
			a, events, err := scheduled.Show(ctx, from.Pool, in.ID, from.Bare)
			for i := range events {
				events[i] = from.event(events[i])
			}
			return scheduledAppend{a, events}, err
		}, func(page *table.Page, a scheduledAppend) {
			page.Facts(
				table.Fact{Name: "campaign", Value: a.CampaignID},
				table.Fact{Name: "due", Value: table.Stamp(&a.DueAt)},
				table.Fact{Name: "scheduled", Value: table.Stamp(&a.ScheduledAt)},
				table.Fact{Name: "by", Value: a.ScheduledBy},
			)
			if a.Attempts > 0 {
				page.Facts(
					table.Fact{Name: "refused", Value: table.Count(int64(a.Attempts), "time"), Tone: table.Warning},
					table.Fact{Name: "next attempt", Value: table.Stamp(&a.AttemptAt)},
					table.Fact{Name: "error", Value: a.Error},
				)
			}
			for _, e := range a.Content {
				page.Heading(e.Type + " " + e.ID.String())
				page.JSON(e.Payload)
			}
		}),
	}
}
