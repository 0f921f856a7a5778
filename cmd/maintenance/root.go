package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
)

// newRoot makes the command line. Each noun has a file of its own and one line here.
func newRoot(env *cli.Env) *cobra.Command {
	root := cli.Noun("maintenance", "Look after a Tidemark database",
		newOutbox(env),
		newLag(env),
		newEvents(env),
	)
	root.Long = `Look after a Tidemark database: TIDEMARK_DATABASE_URL, or the checkout's private server where that is not set.

Data goes to stdout, everything else to stderr. Exit codes: 0 it worked, 1 it failed, 2 the command line makes no sense, 8 the database is unavailable.`
	return root
}
