package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func newProjectionRemove(env *cli.Env) *cobra.Command {
	var (
		act            cli.Act
		tables, asJSON bool
	)
	command := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a projection out of the registry, for good",
		Long: `Take a projection out of the registry, with its pairs and its pause and, with --tables, its
tables and all rows in them. What its group applies at the moment is waited for. Workers that have it
leave it alone from then on, but one that starts with it registers it anew: take it out of the program
first. It asks for the projection's name.`,
		Example: `  tidemark projection remove scores --dry-run
  tidemark projection remove scores --tables --reason 'totals has replaced it'`,
		Args: oneName("projection"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return removeProjection(ctx, env, pool, args[0], tables, act, asJSON)
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(projectionNames)
	flags := command.Flags()
	act.BindMany(flags)
	flags.BoolVar(&tables, "tables", false, "drop its tables too")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func removeProjection(
	ctx context.Context, env *cli.Env, pool *pgxpool.Pool, name string, tables bool, act cli.Act, asJSON bool,
) error {
	if _, err := registered(ctx, pool, name); err != nil {
		return err
	}
	removal, err := admin.On(pool).PreviewRemoval(ctx, name, tables)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("projection %s with %s and without its tables", name, pairs(removal.Pairs))
	if tables {
		what = fmt.Sprintf("projection %s with %s and what is in %s", name, pairs(removal.Pairs),
			strings.Join(removal.Tables, ", "))
		if len(removal.Tables) == 0 {
			what = fmt.Sprintf("projection %s, which has no tables, with %s", name, pairs(removal.Pairs))
		}
	}
	if !act.DryRun {
		if err := env.Confirm(ctx, cli.Confirmation{What: "remove " + what, Type: name, Yes: act.Yes}); err != nil {
			return err
		}
		if _, err := admin.On(pool).RemoveProjection(ctx, by(act), name, tables, name); err != nil {
			return removalError(err, name)
		}
	}
	return tellRemoval(env, admin.ActRemove, act.DryRun, removal, what, asJSON)
}

func tellRemoval(env *cli.Env, kind admin.Kind, dryRun bool, removal admin.Removal, what string, asJSON bool) error {
	switch {
	case asJSON:
		return printAct(env, kind, dryRun, removal)
	case dryRun:
		env.Note("Would remove %s; nothing was changed.", what)
	default:
		env.Note("Removed %s.", what)
	}
	return nil
}

// removalError says what to do about a projection that is still needed, or gone by now.
func removalError(err error, name string) error {
	const dependentObjects = "2BP01"
	var pgErr *pgconn.PgError
	switch {
	case errors.Is(err, projector.ErrUnknownProjection):
		return cli.Hint(cli.Exitf(cli.ExitConflict, "%w: somebody else was quicker", err), "tidemark projection list")
	case errors.As(err, &pgErr) && pgErr.Code == dependentObjects:
		return cli.Hint(cli.Exitf(cli.ExitConflict, "%w (%s); nothing was removed; without --tables they stay", err,
			pgErr.Detail), "tidemark projection remove %s", cli.Quote(name))
	default:
		return err
	}
}
