package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferred(env *cli.Env) *cobra.Command {
	noun := cli.Noun("failed", "See failed campaigns of projections, retry them, or leave an event out",
		newView(env, "listFailed"), newView(env, "getFailed"), newView(env, "listFailureCauses"),
		newView(env, "listFailedLog"),
		newAct(env, "requeueFailed", "requeueManyFailed"),
		newAct(env, "resolveFailed", "resolveManyFailed"), newAct(env, "unresolveFailed"),
		newView(env, "listResolutions"),
	)
	noun.Long = `A projection that cannot apply an event stops in that campaign, and only there: this is a failed
campaign of the projection. Workers retry it by themselves (status failed) until its attempts are used up. Then it is
dead and waits for one of the acts here. A campaign that catches up is rebuilding. The log has every failure and
every act, with who and why.`
	return noun
}
