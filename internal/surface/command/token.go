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
	noun := cli.Noun("token", "Say who may use the pages and the API of workers", newTokenCreate(env), newTokenList(env),
		newAct(env, "revokeToken"))
	noun.Long = `Tokens for the admin listener of workers (TIDEMARK_ADMIN_ADDR): for its API, and to log in
to its pages. Only a hash of a token is kept: it is shown once.`
	return noun
}

func newTokenCreate(env *cli.Env) *cobra.Command {
	return newActAnd(env, "createToken", nil,
		func(_ context.Context, c *actCommand, _ *pgxpool.Pool, name string, done *admin.Outcome) error {
			var made admin.NewToken
			if err := json.Unmarshal(done.Detail, &made); err != nil {
				return err
			}
			if c.asJSON {
				return env.PrintJSON(done)
			}
			env.Note("This is the token of %s, %s. It cannot be shown again.", name, made.Role)
			_, err := fmt.Fprintln(env.Out, made.Token)
			return err
		})
}

func newTokenList(env *cli.Env) *cobra.Command {
	var all, asJSON bool
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens that hold",
		Example: `  tidemark token list --all`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				tokens, err := auth.List(ctx, pool, all)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(tokens))
				}
				var rows [][]cli.Cell
				for _, t := range tokens {
					rows = append(rows, []cli.Cell{
						cli.Text(t.Name), cli.Text(t.Role), cli.Text(cli.Stamp(&t.CreatedAt)),
						cli.Text(t.CreatedBy), cli.Text(cli.Stamp(t.ExpiresAt)),
						cli.Text(cli.Stamp(t.LastUsedAt)), cli.Text(cli.Stamp(t.RevokedAt)),
					})
				}
				if len(rows) == 0 {
					env.Note("There is no token.")
					return nil
				}
				return env.PrintTable([]string{"NAME", "ROLE", "CREATED", "BY", "EXPIRES", "LAST USED", "REVOKED"}, rows)
			})
		},
	}
	command.Flags().BoolVar(&all, "all", false, "also those that were revoked or have expired")
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
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
