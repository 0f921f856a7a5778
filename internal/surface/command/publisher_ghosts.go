package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newPublisherGhosts(env *cli.Env) *cobra.Command {
	var (
		choice pairChoice
		limit  int
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "ghosts PUBLISHER",
		Short: "List events that were sent and that the journal has no more, after a failover or a restore",
		Long: `List events that were sent and that the journal has no more: a failover or a backup has lost their
commits. NOW is what stands at their seq in their campaign: nothing, another event, or the same event, appended
again. Workers find them among the events that they sent last, when they see another database or a server that was
started anew. What a worker sent that has ended meanwhile is not found. They are listed for 30 days, 10,000 of each
pair at most.`,
		Example: `  tidemark publisher ghosts archive
  tidemark publisher ghosts archive --limit 10000 --json | jq '.items[] | select(.now != "appended again")'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.AtLeastOne("limit", limit); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				if _, err := choice.find(ctx, pool, args[0]); err != nil {
					return err
				}
				filter := publications.GhostFilter{Topic: choice.topic, Publisher: args[0], Limit: limit}
				list, err := publications.ListGhosts(ctx, pool, filter)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(list))
				}
				if len(list) == 0 {
					env.Note("No event that was sent is known to be lost.")
					return nil
				}
				return env.PrintTable(ghostColumns(), ghostRows(list))
			})
		},
	}
	choice.bind(env, command)
	command.Flags().IntVar(&limit, "limit", 100, "how many, at most")
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func ghostColumns() []string {
	return []string{"TOPIC", "CAMPAIGN", "SEQ", "POSITION", "ID", "NOW", "FOUND"}
}

func ghostRows(list []publications.Ghost) (rows [][]cli.Cell) {
	for _, g := range list {
		rows = append(rows, []cli.Cell{
			cli.Text(g.Topic), cli.Text(g.CampaignID), cli.Number(g.Seq, cli.Plain), cli.Number(g.Position, cli.Plain),
			cli.Text(g.EventID.String()), cli.Text(g.Now), cli.Text(cli.Stamp(&g.SeenAt)),
		})
	}
	return rows
}
