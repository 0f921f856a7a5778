package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferred(env *cli.Env) *cobra.Command {
	noun := cli.Noun("deferred", "See and decide what becomes of projections that are behind in a campaign",
		newDeferredList(env), newDeferredShow(env), newDeferredStats(env), newDeferredLog(env),
		newDeferredRequeue(env), newDeferredRetry(env), newDeferredResolve(env), newDeferredUnresolve(env),
		newDeferredResolutions(env),
	)
	noun.Long = `A projection that cannot apply an event is set aside for that campaign, and only there: a
deferred pair. A failed pair is tried again by itself, a dead one waits for one of the acts here, a
rebuilding one is catching up. Every failure and every act is kept in the log, with who and why.`
	return noun
}

// bindKey adds the flags that name a pair.
func bindKey(env *cli.Env, command *cobra.Command, key *deferred.Key) {
	flags := command.Flags()
	flags.StringVar(&key.Projection, "projection", "", "the pair's projection")
	flags.StringVar(&key.CampaignID, "campaign", "", "the pair's campaign")
	cli.CompleteFlag(command, "projection", env.Complete(projectionNames))
	cli.CompleteFlag(command, "campaign", env.Complete(deferredCampaigns))
}

func checkKey(key deferred.Key) error {
	if key.Projection == "" || key.CampaignID == "" {
		return cli.Usagef("which pair? Name --projection and --campaign")
	}
	return nil
}
