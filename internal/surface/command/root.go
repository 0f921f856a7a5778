package command

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
)

// newRoot returns the command line, with the commands that are not generated from views and acts.
func newRoot(env *cli.Env, opts Options) *cobra.Command {
	root := cli.Noun(opts.Name, "Operate a Tidemark database", newStatus(env), newDoctor(env))
	parents := addCommands(root, env)
	parents["events"].AddCommand(newEventsImport(env), newEventsExport(env))
	parents["catalogue"].AddCommand(newCatalogueCheck(env))
	parents["erase"].AddCommand(newEraseVerify(env))
	parents["campaign"].AddCommand(verification.NewTravel(env, verification.Compiled{Operators: true})...)
	parents["projection"].AddCommand(verification.NewVerify(env, verification.Compiled{Operators: true}))
	if len(opts.Commands) > 0 {
		const operators, programs = "operators", "programs"
		root.AddGroup(&cobra.Group{ID: programs, Title: "Programs:"},
			&cobra.Group{ID: operators, Title: "Operators' commands:"})
		for _, c := range root.Commands() {
			c.GroupID = operators
		}
		for _, c := range opts.Commands {
			c.GroupID = programs
		}
		root.AddCommand(opts.Commands...)
	}
	root.PersistentPreRun = func(command *cobra.Command, _ []string) {
		for _, stray := range config.Stray(os.Environ()) {
			env.Note("%s: %s", opts.Name, stray)
		}
		checkNames(env, command)
	}
	root.Long = `Operate the Tidemark database that TIDEMARK_DATABASE_URL names.

Data goes to stdout, everything else to stderr. Tables are aligned on a terminal and tab-separated
elsewhere; --json writes a versioned document.

Exit codes:
  0  success
  1  failure
  2  invalid command line, or no database is named
  3  declined: a confirmation was refused, or there was no terminal to ask on
  4  erasures only: nothing was found of a subject or campaign
  5  conflict: another session was first, or the state is not as the command line says
  6  partial: some of it worked, and the output names the rest
  7  differences were found
  8  the database is unavailable
  9  status only: there are warnings
  10 status only: something is critical
  11 events export only: the cursor is not of this journal`
	return root
}
