package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newCampaignReplay(env *cli.Env) *cobra.Command {
	var (
		r     replay
		named []string
		all   bool
	)
	command := &cobra.Command{
		Use:   "replay [CAMPAIGN...]",
		Short: "Have projections apply the events of campaigns again",
		Long: `Have projections apply the events of campaigns again, from the first one on after deleting the
campaign's rows or, with --from, from an event on with the rows as they are. Workers do it while live
work goes on; readers never see a campaign half done. Beyond 100 pairs of a projection and a campaign it
asks. With --wait it shows progress until nothing is on its way any more; the replay goes on also
without.`,
		Example: `  tidemark campaign replay --campaign oak --projection scores --wait
  tidemark campaign replay oak elm --from 7 --reason 'rows were edited by hand'
  tidemark campaign replay --all --projection scores --dry-run
  tidemark campaign replay --all --projection scores --from 1000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.request.Campaigns = append(named, args...)
			switch {
			case len(r.request.Campaigns) == 0 && !all:
				return cli.Usagef("replay which campaigns? Name some, or say --all")
			case len(r.request.Campaigns) > 0 && all:
				return cli.Usagef("--all, and %q: one of them", r.request.Campaigns[0])
			case cmd.Flags().Changed("from") && r.request.From < 1:
				return cli.Usagef("--from %d: events are numbered from 1; without --from it is from scratch", r.request.From)
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return r.run(ctx, env, pool)
			})
		},
	}
	command.ValidArgsFunction = env.Complete(campaignIDs)
	flags := command.Flags()
	flags.StringArrayVar(&named, "campaign", nil, "a campaign to replay, as an argument is; may be given several times")
	flags.BoolVar(&all, "all", false, "all campaigns")
	flags.StringVar(&r.request.Projection, "projection", "", "only this projection (default all of the group)")
	flags.Int64Var(&r.request.From, "from", 0,
		"the first event to apply again, on the rows as they are (default from scratch)")
	r.bind(env, command)
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	cli.CompleteFlag(command, "projection", env.Complete(projectionNames))
	return command
}

// bind adds the flags that all replays have.
func (r *replay) bind(env *cli.Env, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&r.request.Group, "group", defaultGroup, "the consumer group whose projections do it")
	r.act.BindMany(flags)
	flags.BoolVar(&r.wait, "wait", false, "show progress until it is done")
	flags.BoolVar(&r.asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
}
