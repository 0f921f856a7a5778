package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

func newOperation(env *cli.Env) *cobra.Command {
	noun := cli.Noun("operation",
		"See and end what operators have started, and workers do bit by bit", newView(env, "listOperations"),
		newOperationShow(env), newAct(env, "abortOperation"))
	noun.Long = `Operations are acts on much, and rollbacks: workers do them bit by bit. A command that starts one
prints its number; with --wait it shows the progress, and ends as the operation ends.`
	return noun
}

func newOperationShow(env *cli.Env) *cobra.Command {
	var (
		after  int64
		limit  int
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show an operation: what was asked for, how far it is, and what became of each thing that it is about",
		Example: `  tidemark operation show 7
  tidemark operation show 7 --limit 1000 --json`,
		Args: oneName("operation"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := operationID(args[0])
			if err != nil {
				return err
			}
			if err := cli.AtLeastOne("limit", limit); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				o, err := admin.On(pool).Operation(ctx, id)
				if err != nil {
					return err
				}
				items, err := admin.On(pool).Items(ctx, id, after, limit)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(document.One(struct {
						admin.Operation
						Items []admin.Item
					}{*o, items}))
				}
				return printOperation(env, *o, items, limit)
			})
		},
	}
	flags := command.Flags()
	flags.Int64Var(&after, "after", 0, "only things after the one with this number")
	flags.IntVar(&limit, "limit", 20, "at most so many things")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	command.ValidArgsFunction = env.CompleteOne(operationIDs)
	return command
}

func printOperation(env *cli.Env, o admin.Operation, items []admin.Item, limit int) error {
	page := env.Page()
	rows := [][]table.Cell{
		{table.Text("id"), table.Text(strconv.FormatInt(o.ID, 10))},
		{table.Text("kind"), table.Text(string(o.Kind))},
		{table.Text("state"), operator.OperationState(o)},
		{table.Text("asked for"), table.Text(string(o.Request))},
		{table.Text("by"), table.Text(o.By)},
		{table.Text("reason"), table.Text(o.Reason)},
		{
			table.Text("done"),
			table.Text(fmt.Sprintf("%d of %d, skipped %d, failed %d", o.Done, o.Total, o.Skipped, o.Failed)),
		},
		{table.Text("started"), table.Text(table.Stamp(&o.CreatedAt))},
		{table.Text("ended"), table.Text(table.Stamp(o.EndedAt))},
	}
	for _, more := range [][2]string{{"progress", string(o.Progress)}, {"error", o.Error}, {"aborted by", o.EndedBy}} {
		if more[1] != "" {
			rows = append(rows, []table.Cell{table.Text(more[0]), table.Text(more[1])})
		}
	}
	if s := o.Since; s != nil {
		since := fmt.Sprintf("%d failed again, %d waiting, %d got past it", s.FailedAgain, s.Waiting, s.Passed)
		if s.LookedAt < o.Done {
			since += fmt.Sprintf("; of the first %d", s.LookedAt)
		}
		rows = append(rows, []table.Cell{table.Text("since then"), table.Text(since)})
	}
	page.Table([]string{"OPERATION", ""}, rows)
	if len(items) > 0 {
		rows = nil
		for _, i := range items {
			rows = append(rows, []table.Cell{
				table.Number(i.Ord, table.Plain), table.Text(i.CampaignID), table.Text(i.Subject),
				table.Number(i.Seq, table.Plain), table.Text(i.Outcome), table.Text(i.Detail),
			})
		}
		page.Heading("What it is about")
		page.Table([]string{"#", "CAMPAIGN", "OF", "SEQ", "OUTCOME", "DETAIL"}, rows)
	}
	if err := page.Err(); err != nil {
		return err
	}
	if len(items) == limit {
		env.Note("There may be more: --after %d", items[len(items)-1].Ord)
	}
	return nil
}

func operationID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, cli.Usagef("%q is no number of an operation: tidemark operation list shows them", text)
	}
	return id, nil
}

// operationIDs offers operations to the shell.
func operationIDs(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	operations, err := admin.On(pool).Operations(ctx, admin.OperationFilter{})
	var ids []string
	for _, o := range operations {
		ids = append(ids, strconv.FormatInt(o.ID, 10))
	}
	return ids, err
}
