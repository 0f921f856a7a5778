package command

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// tokenCommand prints the token on stdout.
func tokenCommand(env *cli.Env) extra {
	return extra{after: func(_ context.Context, c *actCommand, _ *pgxpool.Pool, _ string, done *admin.Outcome) error {
		if c.asJSON {
			return env.PrintJSON(done)
		}
		var made acts.NewToken
		if err := json.Unmarshal(done.Detail, &made); err != nil {
			return err
		}
		env.Note("This is the token of %s, %s. It cannot be shown again.", made.Name, made.Role)
		_, err := fmt.Fprintln(env.Out, made.Token)
		return err
	}}
}
