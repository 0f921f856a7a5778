// Package migrate has the commands that bring the schema "tidemark" up, down, and tell where it stands.
package migrate

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// Main runs the command line of the process and returns the exit code for [os.Exit].
func Main() int {
	ctx, stop := cli.Context()
	defer stop()
	env, root := cli.Standard(devpg.URL), NewCommand()
	root.PersistentPreRun = func(*cobra.Command, []string) {
		for _, stray := range config.Stray(os.Environ()) {
			env.Note("%s: %s", root.Name(), stray)
		}
	}
	return cli.Run(ctx, root, env, os.Args[1:])
}
