package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newGroup(env *cli.Env) *cobra.Command {
	return cli.Noun("group", "See, stop, resume and remove consumer groups",
		newView(env, "listGroups"), newView(env, "listPauses"), newAct(env, "replayGroup"),
		newAct(env, "pauseGroup"), newAct(env, "resumeGroup"), newAct(env, "removeGroup"))
}
