package command

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// requeueDeadLimit is how many dead campaigns one requeue-dead takes: as many as need no confirmation.
const requeueDeadLimit = requeueAsks

func newOutboxRequeue(env *cli.Env) *cobra.Command {
	var (
		group, campaign string
		seq             int64
		act             cli.Act
		asJSON          bool
	)
	command := &cobra.Command{
		Use:   "requeue",
		Short: "Have one event of a campaign tried again by the projections that failed at it",
		Long: `Have one event of a campaign tried again, at once and as if it had not failed before, by all
projections that failed at it or are dead there. For one projection, or for many events, there is
failed requeue.`,
		Example: `  tidemark outbox requeue --campaign oak --seq 7
  maintenance -outbox-requeue -outbox-requeue-campaign-id oak -outbox-requeue-seq 7`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if campaign == "" || seq < 1 {
				return cli.Usagef("which event? Name --campaign and --seq, which starts at 1")
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				outcome, err := admin.On(pool).RequeueEvent(ctx, by(act), group, campaign, seq)
				var done admin.Requeued
				if err == nil {
					err = json.Unmarshal(outcome.Detail, &done)
				}
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(outcome)
				}
				keys := make([]deferred.Key, len(done.Projections))
				for i, projection := range done.Projections {
					keys[i] = deferred.Key{Projection: projection, CampaignID: campaign}
				}
				told := actOnPairs{done: "requeued"}
				return told.tell(env, int64(len(keys)), keys)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&campaign, "campaign", "", "the event's campaign")
	flags.Int64Var(&seq, "seq", 0, "the event's place in the campaign")
	flags.StringVar(&group, "group", "", "only in this consumer group (default all)")
	act.BindOne(flags)
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "campaign", env.Complete(deferredCampaigns))
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
	return command
}

func newOutboxRequeueDead(env *cli.Env) *cobra.Command {
	var (
		group  string
		limit  int
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "requeue-dead",
		Short: "Requeue dead campaigns of projections, the oldest first, up to a limit",
		Long: `Retry dead campaigns of projections, at once and as if they had not failed before, up to a limit. Those
that were due first come first. Beyond 100 it asks. To choose among them, there is failed requeue.`,
		Example: `  tidemark outbox requeue-dead --limit 100
  maintenance -outbox-requeue-dead -outbox-requeue-dead-limit 100 -json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.AtLeastOne("limit", limit); err != nil {
				return err
			}
			many := actOnPairs{
				kind: admin.ActRequeue, verb: "requeue", done: "requeued", asks: requeueAsks, act: act, asJSON: asJSON,
				do:     (*admin.Acts).RequeueAll,
				filter: deferred.Filter{Group: group, Status: []deferred.Status{deferred.Dead}, Limit: limit},
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return many.run(ctx, env, pool)
			})
		},
	}
	flags := command.Flags()
	flags.IntVar(&limit, "limit", requeueDeadLimit, "at most so many")
	flags.StringVar(&group, "group", "", "only in this consumer group (default all)")
	act.BindMany(flags)
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
	return command
}
