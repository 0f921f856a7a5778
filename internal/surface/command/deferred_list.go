package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredList(env *cli.Env) *cobra.Command {
	var (
		filter pairFilter
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "list",
		Short: "List failed campaigns, those that are due first",
		Example: `  tidemark failed list --status dead
  tidemark failed list --projection scores --message 'not-null' --older-than 1d --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := filter.finish(false); err != nil {
				return err
			}
			if err := cli.AtLeastOne("limit", filter.Limit); err != nil {
				return err
			}
			return filter.withPool(cmd.Context(), env, func(ctx context.Context, pool *pgxpool.Pool) error {
				list, err := deferred.List(ctx, pool, filter.Filter)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(list))
				}
				if len(list) == 0 {
					env.Note("No matching failed campaigns.")
					return nil
				}
				return env.PrintTable(pairColumns(), pairRows(list))
			})
		},
	}
	filter.bind(env, command, false)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func pairColumns() []string {
	return []string{"STATUS", "PROJECTION", "CAMPAIGN", "SEQ", "TYPE", "ATTEMPTS", "NEXT", "CLASS", "CODE", "ERROR"}
}

func pairRows(list []deferred.Pair) [][]cli.Cell {
	var rows [][]cli.Cell
	for _, p := range list {
		rows = append(rows, []cli.Cell{
			{Text: string(p.Status), Tone: pairTone(p.Status)},
			cli.Text(p.Projection), cli.Text(p.CampaignID), cli.Number(p.NextSeq, cli.Plain), cli.Text(p.EventType),
			cli.Number(int64(p.Attempts), cli.Plain), when(p.NextAttemptAt), cli.Text(p.Class), cli.Text(p.Code),
			cli.Text(p.Message),
		})
	}
	return rows
}

func pairTone(s deferred.Status) cli.Tone {
	switch s {
	case deferred.Failed:
		return cli.Warning
	case deferred.Dead:
		return cli.Alarm
	default:
		return cli.Plain
	}
}

// when is a cell with a time, or a dash for none.
func when(at time.Time) cli.Cell {
	if at.IsZero() {
		return cli.Cell{Text: "-", Tone: cli.Faint}
	}
	return cli.Text(at.UTC().Format(time.RFC3339))
}
