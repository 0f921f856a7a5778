package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
)

func newCampaign(env *cli.Env) *cobra.Command {
	sqlFiles := verification.Compiled{Operators: true}
	return cli.Noun("campaign", "See, replay, stop and resume campaigns; travel in their time",
		newCampaignShow(env), newCampaignReplay(env), newPause(env, pausableCampaign()), newResume(env, pausableCampaign()),
		verification.NewAsOf(env, sqlFiles), verification.NewDiff(env, sqlFiles), verification.NewWhy(env, sqlFiles),
	)
}

// pausableCampaign is made anew for each command: its flag is the command's.
func pausableCampaign() pausable {
	group := new(string)
	return pausable{
		noun: "campaign", example: "oak", names: campaignIDs, group: group,
		what: "No worker of the group can claim it; what is being applied to it at the moment is dropped and done again " +
			"later.",
		target: func(_ context.Context, _ *pgxpool.Pool, name string) (pause.Target, error) {
			return pause.Target{Group: *group, CampaignID: name}, nil
		},
	}
}
