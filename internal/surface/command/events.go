package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newEvents(env *cli.Env) *cobra.Command {
	return cli.Noun("events", "Carry events in and out, and look for some", newEventsImport(env), newEventsExport(env),
		newView(env, "queryEvents"))
}
