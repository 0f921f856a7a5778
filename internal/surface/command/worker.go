package command

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newWorker(env *cli.Env) *cobra.Command {
	return cli.Noun("workers", "See workers, have one take no more campaigns, and take some again",
		newView(env, "listWorkers"), newAct(env, "drainWorker"), newAct(env, "undrainWorker"))
}

// ownerNames offers workers to the shell.
func ownerNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	workers, err := lease.Workers(ctx, pool)
	var names []string
	for _, w := range workers {
		names = append(names, w.Owner)
	}
	return names, err
}
