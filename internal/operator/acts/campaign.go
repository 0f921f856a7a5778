package acts

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type campaignReplay struct {
	Campaigns  []string `arg:"CAMPAIGN..." name:"campaign" of:"campaign" help:"the campaigns"`
	Group      string   `of:"group" required:"true" usual:"default" help:"the consumer group"`
	Projection string   `of:"projection" help:"only this projection (default all of the group)"`
	From       int64    `min:"1" help:"the first event to apply again, with the rows kept (default from scratch)"`
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
		define(Act{
			Kind: admin.ActReplay, Name: "replayCampaign", Command: "campaign replay",
			Path:  "/campaigns/{campaign}/replay",
			Short: "Apply the events of a campaign again",
			Long: "Apply the events of campaigns again. By default workers delete the campaign's rows and start " +
				"with the first event; with from they start there and keep the rows. Live work goes on, and readers " +
				"never see a campaign half done. The command asks before it replays more than 100 campaigns of a " +
				"projection. To replay all campaigns, use group replay.",
			Examples: []string{
				"campaign replay oak --projection scores --wait",
				"campaign replay oak elm --from 7 --reason 'rows were edited by hand'",
			},
			Button: "Replay the campaign", Counts: true,
			Hint: "A replay from scratch deletes the campaign's rows first; a replay from an event keeps them. " +
				"Readers never see a campaign half done.",
		}, func(in *campaignReplay, d *does) {
			d.Preview = planReplay(in.request())
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				n, err := failed.Replay(ctx, tx, in.request(), by.Failed())
				return Filing{n}, err
			}
			d.Told = func(*admin.Outcome) Told {
				return Told{
					"Replay begun: projections are listed as catching up until they have caught up.",
					[]string{"campaign", "show", in.Campaigns[0]},
				}
			}
		}),
		define(Act{
			Kind: admin.ActRequeue, Name: "requeueEvent", Command: "outbox requeue",
			Path:  "/campaigns/{campaign}/events/{seq}/requeue",
			Short: "Retry an event in all projections that failed at it",
			Long: "Retry an event at once in all projections that failed at it, as if it had never failed. To retry " +
				"one projection or many campaigns, use failed requeue.",
			Examples: []string{"outbox requeue oak 7"},
			Button:   "Requeue",
		}, func(in *oneEvent, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				keys, err := failed.RequeueSeq(ctx, tx, in.Group, in.CampaignID, in.Seq, by.Failed())
				names := slice.Of(keys, func(k failed.Key) string { return k.Projection })
				return requeued{CampaignID: in.CampaignID, Seq: in.Seq, Projections: names}, err
			}
			d.Told = func(done *admin.Outcome) Told {
				projections := table.Count(int64(len(detail[requeued](done).Projections)), "projection")
				return Told{
					fmt.Sprintf("Requeued event %d of %s in %s.", in.Seq, in.CampaignID, projections),
					[]string{"campaign", "show", in.CampaignID},
				}
			}
		}),
		define(Act{
			Kind: admin.ActRepairGaps, Name: "repairGap", Command: "campaign repair-gap",
			Path:  "/campaigns/{campaign}/repair-gap",
			Short: "Repair the gap of a campaign",
			Long: "Add a work item for a campaign that has events past its checkpoint but no work item. Workers " +
				"look for such gaps every hour; this command looks now.",
			Examples: []string{"campaign repair-gap oak --reason 'its work item was deleted by hand'"},
			Button:   "Repair",
		}, func(in *campaignInGroup, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return nil, repairGap(ctx, tx, by, in.Group, in.CampaignID)
			}
			d.Told = told(fmt.Sprintf("A worker processes %s in group %s now.", in.CampaignID, in.Group), "campaign", "show",
				in.CampaignID)
		}),
	}
}

// requeued is the outcome of requeueEvent; projections are sorted by name.
type requeued struct {
	CampaignID  string   `json:"campaign_id"`
	Seq         int64    `json:"seq"`
	Projections []string `json:"projections"`
}

func repairGap(ctx context.Context, tx pgx.Tx, by admin.Request, group, campaignID string) error {
	if err := knownGroup(ctx, tx, group); err != nil {
		return err
	}
	if _, err := feed.Head(ctx, tx, campaignID); err != nil {
		return err
	}
	checkpoints, err := lease.Checkpoints(ctx, tx, group, []string{campaignID})
	if err != nil {
		return err
	}
	gap := outbox.Gap{Group: group, CampaignID: campaignID, Checkpoint: checkpoints[campaignID]}
	return outbox.RepairGap(ctx, tx, gap, by.Who.Name, by.Reason)
}

// ReplayCampaigns replays up to 5,000 campaigns of a projection from scratch.
func ReplayCampaigns(
	ctx context.Context, acts *admin.Acts, by admin.Request, group, projection string, campaigns []string,
) error {
	act, _ := Named("replayCampaign")
	_, err := act.Do(ctx, acts, by, &campaignReplay{Campaigns: campaigns, Group: group, Projection: projection})
	return err
}

// Filing is the number of campaigns that a replay files, counted once per projection.
type Filing struct {
	Campaigns int64 `json:"campaigns"`
}

// planReplay counts what a replay would file. A request without campaigns is for all.
func planReplay(r failed.ReplayRequest) func(context.Context, *admin.Acts, admin.Request) (*Plan, error) {
	return func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
		n, err := failed.CountReplay(ctx, acts.Pool(), r)
		return &Plan{Detail: Filing{n}, Count: n, Words: "replay " + table.Count(n, "campaign")}, err
	}
}
