package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferred(env *cli.Env) *cobra.Command {
	noun := cli.Noun("failed", "See failed campaigns of projections, retry them, or leave an event out",
		newDeferredList(env), newDeferredShow(env), newDeferredStats(env), newDeferredLog(env),
		newDeferredRequeue(env), newAct(env, "retryFailed"), newDeferredResolve(env), newAct(env, "unresolveFailed"),
		newDeferredResolutions(env),
	)
	noun.Long = `A projection that cannot apply an event stops in that campaign, and only there: this is a failed
campaign of the projection. Workers retry it by themselves (status failed) until its attempts are used up. Then it is
dead and waits for one of the acts here. A campaign that catches up is rebuilding. The log has every failure and
every act, with who and why.`
	return noun
}

// bindKey has the command take the arguments PROJECTION and CAMPAIGN.
func bindKey(env *cli.Env, command *cobra.Command, key *deferred.Key) {
	command.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 || args[0] == "" || args[1] == "" {
			return cli.Usagef("%s which failed campaign? Name PROJECTION and CAMPAIGN", cmd.Name())
		}
		*key = deferred.Key{Projection: args[0], CampaignID: args[1]}
		return nil
	}
	command.ValidArgsFunction = completeKey(env)
}

// completeKey completes a projection, then a campaign in which one has failed.
func completeKey(env *cli.Env) cobra.CompletionFunc {
	projections, campaigns := env.Complete(projectionNames), env.Complete(deferredCampaigns)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return projections(cmd, args, prefix)
		case 1:
			return campaigns(cmd, args, prefix)
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}
