package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newPublisherLog(env *cli.Env) *cobra.Command {
	return operatorLog(env, publications.Acts(), "publication_paused, parked_resolved", &cobra.Command{
		Use:   "log",
		Short: "Show what operators did to publishers, newest first",
		Example: `  tidemark publisher log --publisher archive
  tidemark publisher log --act parked_resolved --limit 20 --json`,
	})
}

// operatorLog makes a command that shows those acts of operators.
func operatorLog(env *cli.Env, known []string, some string, command *cobra.Command) *cobra.Command {
	var f publications.LogFilter
	command = logOf[publications.Record]{
		filter:  logFilter{&f.CampaignID, &f.Actor, &f.Acts, &f.Before, &f.Limit},
		known:   known,
		records: "acts on", kinds: "acts of this kind, such as " + some,
		nothing: "Nobody has done anything, or nothing that this chooses.",
		read: func(ctx context.Context, pool *pgxpool.Pool) ([]publications.Record, error) {
			chosen := f
			if len(chosen.Acts) == 0 {
				chosen.Acts = known
			}
			return publications.Log(ctx, pool, chosen)
		},
		columns: operatorColumns(), rows: operatorRows,
		id: func(r publications.Record) int64 { return r.ID },
	}.command(env, command)
	flags := command.Flags()
	flags.StringVar(&f.Topic, "topic", "", "only acts on this topic")
	flags.StringVar(&f.Publisher, "publisher", "", "only acts on this publisher")
	cli.CompleteFlag(command, "topic", env.Complete(topicNames))
	cli.CompleteFlag(command, "publisher", env.Complete(publisherNames))
	return command
}

func operatorColumns() []string {
	return []string{
		"ID", "AT", "ACT", "TOPIC", "PUBLISHER", "CAMPAIGN", "SEQ", "BY", "WAY", "TOKEN", "ADDRESS", "DATABASE USER", "WHY",
		"DETAIL",
	}
}

func operatorRows(records []publications.Record) [][]cli.Cell {
	var rows [][]cli.Cell
	for _, r := range records {
		rows = append(rows, []cli.Cell{
			{Text: cli.Number(r.ID, cli.Plain).Text, Right: true},
			cli.When(r.At), cli.Text(r.Act), cli.Text(r.Topic), cli.Text(r.Publisher), cli.Text(r.CampaignID),
			cli.NumberOrDash(r.Seq), cli.Text(r.Actor), cli.Text(r.Way), cli.NumberOrDash(r.TokenID), cli.Text(r.Address),
			cli.Text(r.DatabaseUser), cli.Text(r.Reason), cli.Text(string(r.Detail)),
		})
	}
	return rows
}
