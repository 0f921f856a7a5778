package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func newGroupRemove(env *cli.Env) *cobra.Command {
	var (
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "remove NAME",
		Short: "End a consumer group that has no projections any more",
		Long: `End a consumer group that has no projections any more: appends give it no more work items, and those that it has, its checkpoints and its pauses are deleted. A group of the
same name begins anew, with the first event of every campaign. Stop its workers first, they would register it again when they start. It waits for appends that are open,
and asks for the group's name. Interrupted, the same command goes on.`,
		Example: `  maintenance group remove search --dry-run
  maintenance group remove search --reason 'the index is gone'`,
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
	if err := requireUnused(ctx, pool, name); err != nil {
		return err
	}
	document := removalJSON{Version: removalVersion, Act: "removed", DryRun: act.DryRun, Group: name, Tables: []string{}}
	what := "consumer group " + name + " with its work items, checkpoints and pauses"
	if !act.DryRun {
		if err := env.Confirm(ctx, cli.Confirmation{What: "remove " + what, Type: name, Yes: act.Yes}); err != nil {
			return err
		}
		_, err := admin.On(pool).RemoveGroup(ctx, by(act), name, name)
		switch {
		case errors.Is(err, outbox.ErrInUse):
			return cli.Hint(cli.Exitf(cli.ExitConflict, "%w", err), "maintenance projection list")
		case errors.Is(err, outbox.ErrNotRegistered):
			return cli.Hint(err, "maintenance group list")
		case err != nil:
			return err
		}
	}
	return tellRemoval(env, document, what, asJSON)
}

// requireUnused refuses a group that has projections before anything is asked.
func requireUnused(ctx context.Context, pool *pgxpool.Pool, name string) error {
	all, err := projector.Projections(ctx, pool)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Group == name {
			err := cli.Exitf(cli.ExitConflict, "%w: group %q has projection %q: remove that first", outbox.ErrInUse, name, p.Name)
			return cli.Hint(err, "maintenance projection remove %s --dry-run", cli.Quote(p.Name))
		}
	}
	return nil
}
