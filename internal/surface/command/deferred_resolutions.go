package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredResolutions(env *cli.Env) *cobra.Command {
	var (
		f      deferred.ResolutionFilter
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "resolutions",
		Short: "List the events that are resolved, and so left out of a projection, with who and why",
		Example: `  tidemark failed resolutions --projection scores
  tidemark failed resolutions --campaign oak --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.AtLeastOne("limit", f.Limit); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				resolutions, err := deferred.Resolutions(ctx, pool, f)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(resolutions))
				}
				if len(resolutions) == 0 {
					env.Note("No event is resolved, or none that this chooses.")
					return nil
				}
				if len(resolutions) == f.Limit {
					env.Note("There may be more: --limit shows more.")
				}
				return env.PrintTable(resolutionColumns(), resolutionRows(resolutions))
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.Projection, "projection", "", "only of this projection")
	flags.StringVar(&f.CampaignID, "campaign", "", "only of this campaign")
	flags.IntVar(&f.Limit, "limit", 100, "show so many at most")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "projection", env.Complete(projectionNames))
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	return command
}

func resolutionColumns() []string {
	return []string{"PROJECTION", "CAMPAIGN", "SEQ", "BY", "AT", "WHY"}
}

func resolutionRows(resolutions []deferred.Resolution) [][]cli.Cell {
	var rows [][]cli.Cell
	for _, r := range resolutions {
		seq := cli.Cell{Text: fmt.Sprint(r.Seq), Right: true}
		rows = append(rows, []cli.Cell{
			cli.Text(r.Projection), cli.Text(r.CampaignID), seq, cli.Text(r.Actor), when(r.At),
			cli.Text(r.Reason),
		})
	}
	return rows
}
