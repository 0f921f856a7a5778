package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newGroupRemove(env *cli.Env) *cobra.Command {
	var (
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "remove NAME",
		Short: "End a consumer group that has no projections any more",
		Long: `End a consumer group that has no projections any more: appends give it no more work items, and
those that it has, its checkpoints and its pauses are deleted. A group of the same name begins anew, with
the first event of every campaign. Stop its workers first, they would register it again when they start.
It waits for appends that are open, and asks for the group's name. Interrupted, the same command goes on.`,
		Example: `  tidemark group remove search --dry-run
  tidemark group remove search --reason 'the index is gone'`,
		Args: oneName("group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return removeGroup(ctx, env, pool, args[0], act, asJSON)
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(groupNames)
	flags := command.Flags()
	act.BindMany(flags)
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func removeGroup(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, name string, act cli.Act, asJSON bool) error {
	removal, err := admin.On(pool).PreviewGroupRemoval(ctx, name)
	if err != nil {
		return err
	}
	what := "consumer group " + name + " with its work items, checkpoints and pauses"
	if !act.DryRun {
		if err := env.Confirm(ctx, cli.Confirmation{What: "remove " + what, Type: name, Yes: act.Yes}); err != nil {
			return err
		}
		if _, err := admin.On(pool).RemoveGroup(ctx, by(act), name, name); err != nil {
			return err
		}
	}
	return tellRemoval(env, admin.ActRemoveGroup, act.DryRun, removal, what, asJSON)
}
