package command

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newOperation(env *cli.Env) *cobra.Command {
	noun := cli.Noun("operation",
		"See and end what operators have started, and workers do bit by bit", newView(env, "listOperations"),
		newView(env, "getOperation"), newAct(env, "abortOperation"))
	noun.Long = `Operations are acts on much, and rollbacks: workers do them bit by bit. A command that starts one
prints its number; with --wait it shows the progress, and ends as the operation ends.`
	return noun
}

// operationIDs offers operations to the shell.
func operationIDs(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	operations, err := admin.On(pool).Operations(ctx, admin.OperationFilter{})
	var ids []string
	for _, o := range operations {
		ids = append(ids, strconv.FormatInt(o.ID, 10))
	}
	return ids, err
}
