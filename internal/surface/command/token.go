package command

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newToken(env *cli.Env) *cobra.Command {
	noun := cli.Noun("token", "Say who may use the pages and the API of workers", newTokenCreate(env),
		newView(env, "listTokens"),
		newAct(env, "revokeToken"))
	noun.Long = `Tokens for the admin listener of workers (TIDEMARK_ADMIN_ADDR): for its API, and to log in
to its pages. Only a hash of a token is kept: it is shown once.`
	return noun
}

func newTokenCreate(env *cli.Env) *cobra.Command {
	after := func(_ context.Context, c *actCommand, _ *pgxpool.Pool, name string, done *admin.Outcome) error {
		var made operator.NewToken
		if err := json.Unmarshal(done.Detail, &made); err != nil {
			return err
		}
		if c.asJSON {
			return env.PrintJSON(done)
		}
		env.Note("This is the token of %s, %s. It cannot be shown again.", name, made.Role)
		_, err := fmt.Fprintln(env.Out, made.Token)
		return err
	}
	return newActAnd(env, &extra{after: after}, "createToken")
}

// tokenNames offers tokens to the shell.
func tokenNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	tokens, err := auth.List(ctx, pool, false)
	var names []string
	for _, t := range tokens {
		names = append(names, t.Name)
	}
	return names, err
}
