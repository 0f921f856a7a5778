package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newParked(env *cli.Env) *cobra.Command {
	noun := cli.Noun("parked", "See and decide what becomes of events that a sink has refused",
		newView(env, "listParked"), newView(env, "showParked"), newAct(env, "retryParked", "retryManyParked"),
		newAct(env, "resolveParked", "resolveManyParked"))
	noun.Long = `An event that a sink refuses by itself is tried again (retrying) and then given up
(parked). Its campaign waits behind it, unless the publisher leaves such events out; once it may go on it
is draining: on its way, with nothing against it.`
	return noun
}
