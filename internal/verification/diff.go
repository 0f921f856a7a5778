package verification

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

type change struct {
	Projection string
	replay.Change
}

// newDiff returns the command that shows how events changed a campaign's rows.
func newDiff(env *cli.Env, compiled Compiled) *cobra.Command {
	var from, to int64
	m := moment{code: code{compiled: compiled}}
	command := &cobra.Command{
		Use:   "diff",
		Short: "Show what became of a campaign's rows between two of its events",
		Long: `Show what became of a campaign's rows between two of its events: those that are others after
--to than they were after --from. Without --from it is what event --to alone has done. Nothing is
written.`,
		Example: `  tidemark campaign diff --campaign oak --to 12
  tidemark campaign diff --campaign oak --from 10 --to 12 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("to") {
				return cli.Usagef("up to which event? --to names it")
			}
			if !cmd.Flags().Changed("from") {
				from = max(0, to-1)
			}
			if from > to {
				return cli.Usagef("--from %d is after --to %d: turn them round", from, to)
			}
			var changed []change
			err := m.with(cmd.Context(), env, m.chosen, func(p *projector.Projector, r rebuild.Registered) error {
				changes, err := p.Diff(cmd.Context(), r.Name, m.campaign, from, to)
				for _, c := range changes {
					changed = append(changed, change{r.Name, c})
				}
				return err
			})
			switch {
			case err != nil:
				return err
			case m.asJSON:
				return env.PrintJSON(document.All(changed))
			case len(changed) == 0:
				env.Note("Events %d to %d changed no row.", from+1, to)
				return nil
			}
			return printChanges(env, changed)
		},
	}
	m.bind(env, command)
	command.Flags().Int64Var(&from, "from", 0,
		"the event before the first one that is looked at (default the one before --to)")
	command.Flags().Int64Var(&to, "to", 0, "the last event that is looked at")
	m.code.bind(command)
	return command
}

func printChanges(env *cli.Env, changes []change) error {
	var rows [][]table.Cell
	for _, c := range changes {
		eachColumn(c.Columns, c.Before, c.After, func(column string, before, after json.RawMessage) {
			rows = append(rows, []table.Cell{
				table.Text(string(c.Kind)), table.Text(c.Table), table.Text(compact(c.Key)),
				table.Text(column), table.Text(plain(before)), table.Text(plain(after)),
			})
		})
	}
	return env.PrintTable([]string{"CHANGE", "TABLE", "KEY", "COLUMN", "BEFORE", "AFTER"}, rows)
}
