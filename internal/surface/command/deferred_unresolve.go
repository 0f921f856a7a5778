package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredUnresolve(env *cli.Env) *cobra.Command {
	var (
		key    deferred.Key
		act    cli.Act
		asJSON bool
		seq    int64
	)
	command := &cobra.Command{
		Use:   "unresolve PROJECTION CAMPAIGN --seq SEQ",
		Short: "Take back that an event is resolved: the projection applies it after all",
		Long: `Take back that an event is resolved for a projection in a campaign. Workers delete the
projection's rows of the campaign and apply all of its events again, this one in its place, in each set
of tables that has gone past it. If the event still fails, the projection stops there again. A reason is
needed.`,
		Example: `  tidemark failed unresolve scores oak --seq 7 --reason 'it was no test data'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seq < 1 {
				return cli.Usagef("--seq %d: name the event that is resolved; the first one is 1", seq)
			}
			if err := act.NeedReason(); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				outcome, err := admin.On(pool).Unresolve(ctx, by(act), key, seq)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(outcome)
				}
				env.Note("Event %d is not left out any more; workers apply the campaign anew: tidemark campaign show %s", seq,
					cli.Quote(key.CampaignID))
				return printKeys(env, []deferred.Key{key})
			})
		},
	}
	bindKey(env, command, &key)
	act.BindOne(command.Flags())
	flags := command.Flags()
	flags.Int64Var(&seq, "seq", 0, "the event that is resolved")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

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
