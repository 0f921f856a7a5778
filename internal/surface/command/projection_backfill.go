package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newProjectionBackfill(env *cli.Env) *cobra.Command {
	var r replay
	command := &cobra.Command{
		Use:   "backfill NAME",
		Short: "Have a projection apply all events of the campaigns that it has nothing of",
		Long: `Have a projection apply all events of the campaigns that it has nothing of: no row in any of its
tables, and nothing that is on its way. Live work goes on, and campaigns that it has rows of are left
alone: what to do when rows have been lost. Where rows are wrong it is campaign replay --all that writes
them anew. A projection that is new needs neither, it catches up by itself. Campaigns that hold nothing
for the projection are among them each time, and stay without rows. Beyond 100 campaigns it asks.`,
		Example: `  tidemark projection backfill scores --dry-run
  tidemark projection backfill scores --wait --yes --reason 'a partition was dropped'`,
		Args: oneName("projection"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				found, err := registered(ctx, pool, args[0])
				if err != nil {
					return err
				}
				r.request.Group, r.request.Projection, r.missing = found.Group, found.Name, true
				return r.run(ctx, env, pool)
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(projectionNames)
	flags := command.Flags()
	r.act.BindMany(flags)
	flags.BoolVar(&r.wait, "wait", false, "show progress until it is done")
	flags.BoolVar(&r.asJSON, "json", false, "write JSON")
	return command
}
