package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/deferred"
)

func newDeferredResolve(env *cli.Env) *cobra.Command {
	var (
		filter pairFilter
		act    cli.Act
		asJSON bool
		seq    int64
	)
	command := &cobra.Command{
		Use:   "resolve",
		Short: "Skip, for good, the event that pairs failed at",
		Long: `Skip, for good, the event that a pair failed at: the projection goes on with the event after it, and its rows stay as if the event had never been. One
pair is named by --projection, --campaign and --seq, the event it stands before. Without --seq, the event of each pair that the flags choose is skipped; beyond one pair it asks.
A reason is needed.`,
		Example: `  maintenance deferred resolve --projection scores --campaign oak --seq 7 --reason 'test data, see #812'
  maintenance deferred resolve --projection scores --fingerprint 3f2a8c1d90be --dry-run --reason 'test data, see #812'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := filter.finish(true); err != nil {
				return err
			}
			if err := act.NeedReason(); err != nil {
				return err
			}
			bySeq := cmd.Flags().Changed("seq")
			if bySeq && (seq < 1 || !filter.one() || act.DryRun) {
				return cli.Usagef("--seq %d: it names, with --projection and --campaign alone, the one event to skip; the first one is 1", seq)
			}
			return filter.withPool(cmd.Context(), env, func(ctx context.Context, pool *pgxpool.Pool) error {
				if bySeq {
					one := actOnPair{key: filter.key(), done: "resolved", act: act, asJSON: asJSON, do: func(acts *admin.Acts, ctx context.Context, by admin.Request, key deferred.Key) (*admin.Outcome, error) {
						return acts.Resolve(ctx, by, key, seq)
					}}
					return one.run(ctx, env, pool)
				}
				many := actOnPairs{verb: "skip the event of", done: "resolved", asks: resolveAsks, filter: filter.Filter, act: act, asJSON: asJSON, do: (*admin.Acts).ResolveAll}
				return many.run(ctx, env, pool)
			})
		},
	}
	filter.bind(env, command, true)
	act.BindMany(command.Flags())
	flags := command.Flags()
	flags.Int64Var(&seq, "seq", 0, "the event to skip, of the one pair that --projection and --campaign name")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}
