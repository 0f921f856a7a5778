package command

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newToken(env *cli.Env) *cobra.Command {
	noun := cli.Noun("token", "Say who may use the pages and the API of workers", newTokenCreate(env), newTokenList(env),
		newTokenRevoke(env))
	noun.Long = `Tokens for the admin listener of workers (TIDEMARK_ADMIN_ADDR): for its API, and to log in
to its pages. Only a hash of a token is kept: it is shown once.`
	return noun
}

func newTokenCreate(env *cli.Env) *cobra.Command {
	var (
		role   string
		d      time.Duration
		act    cli.Act
		never  bool
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token, and print it this once",
		Long: `Make a token, and print it on stdout, this once. NAME is who has it: it stands in the log of
what operators did. A viewer looks, an operator also does what loses nothing, an admin also what leaves
events out, moves positions and exchanges tables.`,
		Example: `  tidemark token create ada --role operator
  tidemark token create ci --role viewer --expires 30d`,
		Args: oneName("token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			parsed, err := auth.ParseRole(role)
			if err != nil {
				return cli.Usagef("--role %q: use one of viewer, operator, admin", role)
			}
			if never && d != 0 {
				return cli.Usagef("--expires and --never-expires: give one of them")
			}
			if never {
				d = auth.Never
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				created, err := admin.On(pool).CreateToken(ctx, by(act), args[0], parsed, d)
				if err != nil {
					return err
				}
				var made admin.NewToken
				if err := json.Unmarshal(created.Detail, &made); err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(created)
				}
				env.Note("This is the token of %s, %s. It cannot be shown again.", args[0], parsed)
				_, err = fmt.Fprintln(env.Out, made.Token)
				return err
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&role, "role", auth.Viewer.String(), "viewer, operator or admin")
	cli.BindDuration(flags, &d, "expires", "`time` after which it holds no more, as in 30d (default 90d)")
	flags.BoolVar(&never, "never-expires", false, "it holds until it is revoked")
	act.BindOne(flags)
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "role", cli.Choices([]string{
		auth.Viewer.String(), auth.Operator.String(),
		auth.Admin.String(),
	}))
	return command
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
						cli.Text(t.Name), cli.Text(t.Role), cli.Text(stamp(&t.CreatedAt)),
						cli.Text(t.CreatedBy), cli.Text(stamp(t.ExpiresAt)), cli.Text(stamp(t.LastUsedAt)), cli.Text(stamp(t.RevokedAt)),
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

func newTokenRevoke(env *cli.Env) *cobra.Command {
	var (
		act    cli.Act
		asJSON bool
	)
	command := &cobra.Command{
		Use:     "revoke NAME",
		Short:   "End a token, and the sessions begun with it, at once",
		Example: `  tidemark token revoke ada`,
		Args:    oneName("token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				outcome, err := admin.On(pool).RevokeToken(ctx, by(act), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(outcome)
				}
				env.Note("Token %s holds no more.", args[0])
				return nil
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(func(ctx context.Context, pool *pgxpool.Pool, _ string) (names []string,
		err error,
	) {
		tokens, err := auth.List(ctx, pool, false)
		for _, t := range tokens {
			names = append(names, t.Name)
		}
		return names, err
	})
	act.BindOne(command.Flags())
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}
