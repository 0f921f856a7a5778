package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// removalVersion changes when a field of the documents of remove goes or changes its meaning.
const removalVersion = 1

// removalJSON says what was removed or, with dry_run, would be.
type removalJSON struct {
	Version    int      `json:"version"`
	Act        string   `json:"act"`
	DryRun     bool     `json:"dry_run"`
	Group      string   `json:"group"`
	Projection *string  `json:"projection"` // null: the whole group
	Pairs      int64    `json:"pairs"`      // in which the projection was behind
	Tables     []string `json:"tables"`     // that are dropped
}

func newProjectionRemove(env *cli.Env) *cobra.Command {
	var (
		act            cli.Act
		tables, asJSON bool
	)
	command := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a projection out of the registry, for good",
		Long: `Take a projection out of the registry, with its pairs and its pause and, with --tables, its tables and all rows in them. What its group applies at the moment is waited for.
Workers that have it leave it alone from then on, but one that starts with it registers it anew: take it out of the program first. It asks for the projection's name.`,
		Example: `  maintenance projection remove scores --dry-run
  maintenance projection remove scores --tables --reason 'totals has replaced it'`,
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

func removeProjection(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, name string, tables bool, act cli.Act, asJSON bool) error {
	found, err := registered(ctx, pool, name)
	if err != nil {
		return err
	}
	document := removalJSON{Version: removalVersion, Act: "removed", DryRun: act.DryRun, Group: found.Group, Projection: &name, Tables: []string{}}
	if document.Pairs, err = deferred.Count(ctx, pool, deferred.Filter{Group: found.Group, Projection: name}); err != nil {
		return err
	}
	what := fmt.Sprintf("projection %s with %s and without its tables", name, pairs(document.Pairs))
	if tables {
		for _, table := range found.Tables {
			document.Tables = append(document.Tables, found.Schema+"."+table)
		}
		what = fmt.Sprintf("projection %s with %s and what is in %s", name, pairs(document.Pairs), strings.Join(document.Tables, ", "))
		if len(document.Tables) == 0 {
			what = fmt.Sprintf("projection %s, which has no tables, with %s", name, pairs(document.Pairs))
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
	return tellRemoval(env, document, what, asJSON)
}

func tellRemoval(env *cli.Env, document removalJSON, what string, asJSON bool) error {
	switch {
	case asJSON:
		return env.PrintJSON(document)
	case document.DryRun:
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
		return cli.Hint(cli.Exitf(cli.ExitConflict, "%w: somebody else was quicker", err), "maintenance projection list")
	case errors.As(err, &pgErr) && pgErr.Code == dependentObjects:
		return cli.Hint(cli.Exitf(cli.ExitConflict, "%w (%s); nothing was removed; without --tables they stay", err, pgErr.Detail), "maintenance projection remove %s", cli.Quote(name))
	default:
		return err
	}
}
