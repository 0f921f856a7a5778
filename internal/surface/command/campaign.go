package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
)

func newCampaign(env *cli.Env) *cobra.Command {
	campaign := cli.Noun("campaign", "See, replay, stop and resume campaigns; travel in their time",
		newView(env, "listCampaigns"), newView(env, "getCampaign"), newAct(env, "replayCampaign"), newAct(env, "repairGap"),
		newAct(env, "pauseCampaign"), newAct(env, "resumeCampaign"))
	campaign.AddCommand(verification.NewTravel(env, verification.Compiled{Operators: true})...)
	return campaign
}
