package app

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
)

// addVerification adds the commands that run the worker's projections beside the live ones: the
// operators' commands have them for SQL files alone.
func addVerification(cmd *cobra.Command, opts Options) {
	env := cli.Standard(devpg.URL)
	compiled := verification.Compiled{Projections: opts.Projections, Catalogue: opts.Catalogue}
	cmd.AddCommand(verification.NewVerify(env, compiled), verification.NewAsOf(env, compiled),
		verification.NewDiff(env, compiled), verification.NewWhy(env, compiled))
}
