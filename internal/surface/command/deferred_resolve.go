package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredResolve(env *cli.Env) *cobra.Command {
	var (
		filter pairFilter
		act    cli.Act
		asJSON bool
		seq    int64
	)
	command := &cobra.Command{
		Use:   "resolve [PROJECTION CAMPAIGN]",
		Short: "Leave out, for good, the event that failed",
		Long: `Leave out, for good, the event that failed: the projection goes on with the event after it, and its
rows stay as if the event had never been, also where a replay, a rebuild or a repair makes them again later. Every set
of tables of the projection leaves it out; unresolve takes that back. PROJECTION and CAMPAIGN name one failed
campaign, --seq the event that it stands before. Without --seq it shows the events, and asks. Without arguments the
flags choose. A reason is needed.`,
		Example: `  tidemark failed resolve scores oak --seq 7 --reason 'test data, see #812'
  tidemark failed resolve --projection scores --fingerprint 3f2a8c1d90be --dry-run --reason 'test data, see #812'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter.name(args)
			if err := filter.finish(true); err != nil {
				return err
			}
			if err := act.NeedReason(); err != nil {
				return err
			}
			bySeq := cmd.Flags().Changed("seq")
			if bySeq && (seq < 1 || !filter.one() || act.DryRun) {
				return cli.Usagef("--seq %d: it names, with PROJECTION and CAMPAIGN, the one event to leave out; the first one "+
					"is 1", seq)
			}
			return filter.withPool(cmd.Context(), env, func(ctx context.Context, pool *pgxpool.Pool) error {
				if bySeq {
					return resolving(filter.key(), seq, act, asJSON).run(ctx, env, pool)
				}
				list, err := deferred.List(ctx, pool, firstEvents(filter.Filter))
				if err != nil {
					return err
				}
				if !act.DryRun && len(list) == 1 {
					return skipOne(ctx, env, pool, list[0], act, asJSON)
				}
				if !act.DryRun && !act.Yes && len(list) > 1 {
					env.Note("%s", skipped(list))
				}
				many := actOnPairs{
					kind: admin.ActResolve, verb: "skip the event of", done: "resolved", asks: resolveAsks,
					filter: filter.Filter, act: act, asJSON: asJSON, do: (*admin.Acts).ResolveAll,
				}
				return many.run(ctx, env, pool)
			})
		},
	}
	filter.bind(env, command, true)
	act.BindMany(command.Flags())
	flags := command.Flags()
	flags.Int64Var(&seq, "seq", 0, "the event to leave out, of the failed campaign that PROJECTION and CAMPAIGN name")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// resolving is the act on one failed campaign that skips an event.
func resolving(key deferred.Key, seq int64, act cli.Act, asJSON bool) actOnPair {
	return actOnPair{
		key: key, done: "resolved", act: act, asJSON: asJSON,
		do: func(acts *admin.Acts, ctx context.Context, by admin.Request, key deferred.Key) (*admin.Outcome, error) {
			return acts.Resolve(ctx, by, key, seq)
		},
	}
}

// skipOne names the event that a pair stands before, asks for its seq, and skips that event and no other.
func skipOne(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, p deferred.Pair, act cli.Act, asJSON bool) error {
	c := cli.Confirmation{What: "skip for good " + event(p), Type: fmt.Sprint(p.NextSeq), Yes: act.Yes}
	if err := env.Confirm(ctx, c); err != nil {
		return err
	}
	return resolving(p.Key, p.NextSeq, act, asJSON).run(ctx, env, pool)
}

// event names the event that a pair stands before.
func event(p deferred.Pair) string {
	return fmt.Sprintf("event %d (%s) of campaign %s, for projection %s", p.NextSeq, p.EventType, p.CampaignID,
		p.Projection)
}

// shownEvents is how many events are named before many are skipped.
const shownEvents = 10

// firstEvents chooses the pairs whose events are named.
func firstEvents(f deferred.Filter) deferred.Filter {
	if f.Limit == 0 || f.Limit > shownEvents {
		f.Limit = shownEvents + 1
	}
	return f
}

// skipped names the events that would be skipped, the first ones of many.
func skipped(list []deferred.Pair) string {
	var lines []string
	for i, p := range list {
		if i == shownEvents {
			lines = append(lines, "and more: --dry-run lists them")
			break
		}
		lines = append(lines, event(p))
	}
	return strings.Join(lines, "\n")
}
