package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newGaps(env *cli.Env) *cobra.Command {
	noun := cli.Noun("gaps", "Find and repair campaigns that nothing would bring to their heads",
		newView(env, "listGaps"), newAct(env, "repairGaps"))
	noun.Long = `A gap is a campaign whose journal goes on beyond a consumer group's checkpoint while
neither the outbox nor a failed campaign says so: no worker would ever come to it. There are none unless
work items were deleted by hand, or an append did not know the group. Workers look for gaps at their
start and repair them.`
	return noun
}
