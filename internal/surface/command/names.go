package command

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// checkNames has the command refuse names that nothing has, in flags that choose by them. Commands
// that bring code or routes of their own mean the names in those.
func checkNames(env *cli.Env, command *cobra.Command) {
	flags := command.Flags()
	env.Check = nil
	if flags.Lookup("publishers") != nil || flags.Lookup("projections-dir") != nil {
		return
	}
	value := func(name string) string {
		if f := flags.Lookup(name); f != nil && f.Value.Type() == "string" && f.Changed {
			return f.Value.String()
		}
		return ""
	}
	projection := value("projection")
	if strings.Contains(command.Use, "PROJECTION CAMPAIGN") && projection == "" {
		projection = argument(command, "PROJECTION")
	}
	names := admin.Names{
		Group: value("group"), Projection: projection, Topic: value("topic"),
		Publisher: value("publisher"),
	}
	if names == (admin.Names{}) {
		return
	}
	env.Check = func(ctx context.Context, pool *pgxpool.Pool) error {
		err := names.Check(ctx, pool)
		var unknown *admin.UnknownNameError
		if !errors.As(err, &unknown) {
			return err
		}
		noun := unknown.Kind
		if noun == "topic" {
			noun = "publisher"
		}
		return cli.Hint(err, "tidemark %s list", noun)
	}
}
