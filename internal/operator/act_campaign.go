package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/journal"
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
			Button: "Replay the campaign", Counts: true,
			Hint: "From scratch its rows are deleted first; from an event on they stay. Readers never see a campaign half " +
				"done.",
		}, func(in *campaignReplay) does {
			return does{
				Preview: planReplay(in.request()),
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					n, err := failed.Replay(ctx, tx, in.request(), by.Failed())
					return Filing{n}, err
				},
				Told: func(*admin.Outcome) Told {
					return Told{
						"Replay begun: its projections catch up now, and are listed as rebuilding until they have.",
						[]string{"campaign", "show", in.Campaigns[0]},
					}
				},
			}
		}),
		act(Act{
			Kind: admin.ActRequeue, Name: "requeueEvent", Command: "outbox requeue",
			Path:  "/campaigns/{campaign}/events/{seq}/requeue",
			Short: "Try one event of a campaign again, in all projections that failed at it",
			Long: "Try one event of a campaign again, at once and as if it had not failed before, in all projections that " +
				"failed at it. For one projection, or for many campaigns, there is failed requeue.",
			Examples: []string{"outbox requeue oak 7"},
			Button:   "Requeue",
		}, func(in *oneEvent) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					keys, err := failed.RequeueSeq(ctx, tx, in.Group, in.CampaignID, in.Seq, by.Failed())
					done := requeued{CampaignID: in.CampaignID, Seq: in.Seq, Projections: []string{}}
					for _, k := range keys {
						done.Projections = append(done.Projections, k.Projection)
					}
					return done, err
				},
				Told: func(done *admin.Outcome) Told {
					projections := table.Count(int64(len(detail[requeued](done).Projections)), "projection")
					return Told{
						fmt.Sprintf("Requeued event %d of %s in %s.", in.Seq, in.CampaignID, projections),
						[]string{"campaign", "show", in.CampaignID},
					}
				},
			}
		}),
		act(Act{
			Kind: admin.ActRepairGaps, Name: "repairGap", Command: "campaign repair-gap",
			Path:  "/campaigns/{campaign}/repair-gap",
			Short: "Give a campaign with a gap a work item, so that a worker comes to it",
			Long: "Give a campaign a work item if it has none, though events stand past its checkpoint. Workers look for " +
				"such gaps every hour; this looks now.",
			Examples: []string{"campaign repair-gap oak --reason 'its work item was deleted by hand'"},
			Button:   "Repair",
		}, func(in *campaignInGroup) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					return nil, repairGap(ctx, tx, by, in.Group, in.CampaignID)
				},
				Told: told(fmt.Sprintf("A worker comes to %s in group %s now.", in.CampaignID, in.Group), "campaign", "show",
					in.CampaignID),
			}
		}),
	}
}

// requeued is what came of an event that is tried again: where, in the order of the projections' names.
type requeued struct {
	CampaignID  string   `json:"campaign_id"`
	Seq         int64    `json:"seq"`
	Projections []string `json:"projections"`
}

// repairGap files a work item for the gap of a campaign, if there is one.
func repairGap(ctx context.Context, tx pgx.Tx, by admin.Request, group, campaignID string) error {
	if err := knownGroup(ctx, tx, group); err != nil {
		return err
	}
	if _, err := journal.Last(ctx, tx, campaignID); err != nil {
		return err
	}
	checkpoints, err := lease.Checkpoints(ctx, tx, group, []string{campaignID})
	if err != nil {
		return err
	}
	gap := outbox.Gap{Group: group, CampaignID: campaignID, Checkpoint: checkpoints[campaignID]}
	return outbox.RepairGap(ctx, tx, gap, by.Who.Name, by.Reason)
}

// ReplayCampaigns has a projection apply the events of up to 5,000 campaigns again, from scratch.
func ReplayCampaigns(
	ctx context.Context, acts *admin.Acts, by admin.Request, group, projection string, campaigns []string,
) error {
	act, _ := ActNamed("replayCampaign")
	_, err := act.Do(ctx, acts, by, &campaignReplay{Campaigns: campaigns, Group: group, Projection: projection})
	return err
}

// Filing is how many campaigns a replay files, each counted once for each projection.
type Filing struct {
	Campaigns int64 `json:"campaigns"`
}

// planReplay counts what a replay would file; no campaigns are all.
func planReplay(r failed.ReplayRequest) func(context.Context, *admin.Acts, admin.Request) (*Plan, error) {
	return func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
		n, err := failed.CountReplay(ctx, acts.Pool(), r)
		return &Plan{Detail: Filing{n}, Count: n, Words: "replay " + table.Count(n, "campaign")}, err
	}
}
