package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// newKeysRotate returns the command that wraps the keys of subjects anew.
func newKeysRotate(env *cli.Env) *cobra.Command {
	var keys config.WrappingKeys
	var asJSON bool
	command := &cobra.Command{
		Use:   "rotate",
		Short: "Wrap the keys of subjects by the first wrapping key",
		Long: `Wrap the keys of subjects by the first wrapping key; the others must be given too. It changes some hundred
keys in a statement, beside appends and reads. One that was interrupted goes on where it stopped. When every program has
the new wrapping key first and this finds nothing more, the others are not needed.`,
		Example: "  tidemark keys rotate --wrapping-keys wrapping-keys",
		Args:    cli.NoArgs,
	}
	set := config.NewSet(command.Flags())
	config.WrappingKeySettings(set, &keys)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := set.Finish(); err != nil {
			return &cli.UsageError{Err: err}
		}
		sealer, err := keys.Sealer()
		switch {
		case err != nil:
			return &cli.UsageError{Err: err}
		case sealer == nil:
			return cli.Usagef("with which keys? Name their file with --wrapping-keys or TIDEMARK_WRAPPING_KEYS")
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			rotated, err := sealer.Rotate(ctx, pool)
			if asJSON && err == nil {
				return env.PrintJSON(document.One(struct {
					Rotated int64 `json:"rotated"`
				}{rotated}))
			}
			env.Note("Wrapped %s anew.", table.Count(rotated, "key"))
			return err
		})
	}
	return command
}
