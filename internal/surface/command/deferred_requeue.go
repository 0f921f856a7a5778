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
		Use:   "requeue",
		Short: "Have pairs that failed or are dead tried again, as if they had not failed before",
		Long: `Have pairs that failed or are dead tried again at once, as if they had not failed before: what
to do once the projection is mended. Those that were due first come first. --projection and --campaign
alone name one pair; everything else chooses among all that have failed. Beyond 100 pairs it asks.`,
		Example: `  tidemark deferred requeue --projection scores --campaign oak
  tidemark deferred requeue --projection scores --fingerprint 3f2a8c1d90be --dry-run
  tidemark deferred requeue --status dead --message 'violates not-null' --limit 500 --yes --reason 'fixed in 1.4.2'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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

func newDeferredRetry(env *cli.Env) *cobra.Command {
	var (
		key    deferred.Key
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "retry",
		Short: "Have one pair tried again at once; its attempts go on counting",
		Long: `Have one pair that failed or is dead tried again at once, without waiting for its next attempt.
Its attempts go on counting, so that a dead one is dead again if it fails: the way to try whether a
repair helps before requeueing everything.`,
		Example: `  tidemark deferred retry --projection scores --campaign oak --reason 'does 1.4.2 help?'`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKey(key); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				one := actOnPair{key: key, done: "retried", act: act, asJSON: asJSON, do: (*admin.Acts).Retry}
				return one.run(ctx, env, pool)
			})
		},
	}
	bindKey(env, command, &key)
	act.BindOne(command.Flags())
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// actOnPair is an act on one pair.
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
	env.Note("1 pair %s; what becomes of it: tidemark campaign show %s", a.done, cli.Quote(a.key.CampaignID))
	return printKeys(env, []deferred.Key{a.key})
}
