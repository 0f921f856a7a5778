package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredRequeue(env *cli.Env) *cobra.Command {
	var (
		filter pairFilter
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "requeue [PROJECTION CAMPAIGN]",
		Short: "Retry failed campaigns at once, as if they had not failed before",
		Long: `Retry failed and dead campaigns at once, as if they had not failed before: what to do once the
projection is mended. Those that were due first come first. PROJECTION and CAMPAIGN name one; without them the flags
choose among all that have failed. It asks before it requeues more than 100.`,
		Example: `  tidemark failed requeue scores oak
  tidemark failed requeue --projection scores --fingerprint 3f2a8c1d90be --dry-run
  tidemark failed requeue --status dead --message 'violates not-null' --limit 500 --yes --reason 'fixed in 1.4.2'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter.name(args)
			if err := filter.finish(true); err != nil {
				return err
			}
			return filter.withPool(cmd.Context(), env, func(ctx context.Context, pool *pgxpool.Pool) error {
				if filter.one() && !act.DryRun {
					one := actOnPair{key: filter.key(), done: "requeued", act: act, asJSON: asJSON, do: (*admin.Acts).Requeue}
					return one.run(ctx, env, pool)
				}
				many := actOnPairs{
					kind: admin.ActRequeue, verb: "requeue", done: "requeued", asks: requeueAsks,
					filter: filter.Filter, act: act, asJSON: asJSON, do: (*admin.Acts).RequeueAll,
				}
				return many.run(ctx, env, pool)
			})
		},
	}
	filter.bind(env, command, true)
	act.BindMany(command.Flags())
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// actOnPair is an act on one failed campaign.
type actOnPair struct {
	key    deferred.Key
	done   string
	act    cli.Act
	asJSON bool
	do     func(acts *admin.Acts, ctx context.Context, by admin.Request, key deferred.Key) (*admin.Outcome, error)
}

func (a actOnPair) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	outcome, err := a.do(admin.On(pool), ctx, by(a.act), a.key)
	if err != nil {
		return err
	}
	if a.asJSON {
		return env.PrintJSON(outcome)
	}
	env.Note("1 failed campaign %s; what becomes of it: tidemark campaign show %s", a.done, cli.Quote(a.key.CampaignID))
	return printKeys(env, []deferred.Key{a.key})
}
