package operator

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type campaignReplay struct {
	Campaigns  []string `arg:"CAMPAIGN..." name:"campaign" of:"campaign" help:"the campaigns"`
	Group      string   `of:"group" required:"true" usual:"default" help:"the consumer group that it concerns"`
	Projection string   `of:"projection" help:"only this projection (default all of the group)"`
	From       int64    `min:"1" help:"the first event to apply again, on the rows as they are (default from scratch)"`
}

func (in *campaignReplay) request() failed.ReplayRequest {
	return failed.ReplayRequest{
		Group: in.Group, Projection: in.Projection, From: in.From, Campaigns: in.Campaigns,
	}
}

type oneEvent struct {
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"failed" help:"the campaign"`
	Seq        int64  `arg:"SEQ" min:"1" help:"the event's place in the campaign; the first one is 1"`
	Group      string `of:"group" form:"-" help:"only in this consumer group (default all)"`
}

func campaignActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActReplay, Name: "replayCampaign", Command: "campaign replay",
			Path:  "/campaigns/{campaign}/replay",
			Short: "Apply the events of a campaign again",
			Long: "Apply the events of campaigns again, from the first one on after deleting the campaign's rows or, with " +
				"from, from an event on with the rows as they are. Workers do it while live work goes on; readers never see a " +
				"campaign half done. Beyond 100 campaigns of a projection it asks. For all campaigns there is group replay.",
			Examples: []string{
				"campaign replay oak --projection scores --wait",
				"campaign replay oak elm --from 7 --reason 'rows were edited by hand'",
			},
			Button: "Replay the campaign",
			Hint: "From scratch its rows are deleted first; from an event on they stay. Readers never see a campaign half " +
				"done.",
		}, does[*campaignReplay]{
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *campaignReplay) (any, error) {
				return acts.PreviewReplay(ctx, in.request())
			},
			Counted: countFiled,
			Would:   func(_ *campaignReplay, found any) string { return "replay " + filed(found) },
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *campaignReplay) (*admin.Outcome, error) {
				return acts.ReplayCampaigns(ctx, by, in.request())
			},
			Told: func(in *campaignReplay, _ *admin.Outcome) Told {
				return Told{
					"Replay begun: its projections catch up now, and are listed as rebuilding until they have.",
					[]string{"campaign", "show", in.Campaigns[0]},
				}
			},
		}),
		act(Act{
			Kind: admin.ActRequeue, Name: "requeueEvent", Command: "outbox requeue",
			Path:  "/campaigns/{campaign}/events/{seq}/requeue",
			Short: "Try one event of a campaign again, in all projections that failed at it",
			Long: "Try one event of a campaign again, at once and as if it had not failed before, in all projections that " +
				"failed at it. For one projection, or for many campaigns, there is failed requeue.",
			Examples: []string{"outbox requeue oak 7"},
			Button:   "Requeue",
		}, does[*oneEvent]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneEvent) (*admin.Outcome, error) {
				return acts.Failures().RequeueEvent(ctx, by, in.Group, in.CampaignID, in.Seq)
			},
			Told: func(in *oneEvent, done *admin.Outcome) Told {
				n := len(detail[admin.Requeued](done).Projections)
				return Told{
					fmt.Sprintf("Requeued event %d of %s in %s.", in.Seq, in.CampaignID, table.Count(int64(n), "projection")),
					[]string{"campaign", "show", in.CampaignID},
				}
			},
		}),
		act(Act{
			Kind: admin.ActRepairGaps, Name: "repairGap", Command: "campaign repair-gap",
			Path:  "/campaigns/{campaign}/repair-gap",
			Short: "Give a campaign with a gap a work item, so that a worker comes to it",
			Long: "Give a campaign a work item if it has none, though events stand past its checkpoint. Workers look for " +
				"such gaps every hour; this looks now.",
			Examples: []string{"campaign repair-gap oak --reason 'its work item was deleted by hand'"},
			Button:   "Repair",
		}, does[*campaignInGroup]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *campaignInGroup) (*admin.Outcome, error) {
				return acts.RepairGap(ctx, by, in.Group, in.CampaignID)
			},
			Told: func(in *campaignInGroup, _ *admin.Outcome) Told {
				return Told{
					fmt.Sprintf("A worker comes to %s in group %s now.", in.CampaignID, in.Group),
					[]string{"campaign", "show", in.CampaignID},
				}
			},
		}),
	}
}

// countFiled answers how many campaigns a replay would file.
func countFiled(found any) (int64, []admin.Item) { return found.(admin.Filing).Campaigns, nil }

// filed writes how many campaigns would be filed.
func filed(found any) string { return table.Count(found.(admin.Filing).Campaigns, "campaign") }
