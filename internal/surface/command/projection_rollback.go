package command

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// rollbackJSON says what came back.
type rollbackJSON struct {
	Version     int    `json:"version"`
	Act         string `json:"act"` // rolled_back
	Projection  string `json:"projection"`
	FromVersion int    `json:"from_version"`
	ToVersion   int    `json:"to_version"`
}

func newProjectionRollback(env *cli.Env) *cobra.Command {
	var (
		act         cli.Act
		allowBehind int64
		keep        time.Duration
		asJSON      bool
	)
	command := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Put the tables that a rebuild has replaced in their place again",
		Long: `Have a worker put the tables that a rebuild has replaced in their place again, and wait for it.
Workers that have their version went on applying events to them, so that they are as they would be if
they had never been replaced; where no such worker ran they are behind, which is refused unless it is
allowed. The tables that make way are kept in turn: a second rollback undoes the first. Any worker
(cmd/worker, or pkg/worker in a program of your own) does it. If none runs, it is done when one starts,
unless tidemark operation abort withdraws it before. It asks for the projection's name.`,
		Example: `  tidemark projection rollback scores --reason 'version 3 is wrong'`,
		Args:    oneName("projection"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				if _, err := registered(ctx, pool, args[0]); err != nil {
					return err
				}
				o := projector.RollbackOptions{AllowBehind: allowBehind, Keep: keep}
				c := cli.Confirmation{
					What: "have projection " + args[0] + " show its previous tables", Type: args[0],
					Look: "tidemark projection list",
				}
				request, err := typed(ctx, env, act, c)
				if err != nil {
					return err
				}
				started, err := admin.On(pool).Rollback(ctx, request, args[0], o)
				if errors.Is(err, projector.ErrBehind) {
					return cli.Hint(cli.Exitf(cli.ExitConflict, "%w", err), "tidemark projection rollback %s --allow-behind -1",
						cli.Quote(args[0]))
				}
				if err != nil {
					return err
				}
				done, err := awaitRollback(ctx, env, pool, started)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(rollbackJSON{
						Version: rebuildVersion, Act: "rolled_back", Projection: args[0],
						FromVersion: done.FromVersion, ToVersion: done.Version,
					})
				}
				env.Note("Projection %s shows version %d again, instead of %d; to undo it: tidemark projection rollback %[1]s",
					cli.Quote(args[0]), done.Version, done.FromVersion)
				return nil
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(projectionNames)
	flags := command.Flags()
	act.BindTyped(flags)
	flags.Int64Var(&allowBehind, "allow-behind", 0,
		"go back although the tables are behind in so many campaigns; -1: in any number")
	cli.BindDuration(flags, &keep, "keep",
		"how long the tables that make way are kept, such as 90m, 24h or 7d (default 24h)")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// awaitRollback waits until a worker has rolled back, and answers what that was about.
func awaitRollback(
	ctx context.Context, env *cli.Env, pool *pgxpool.Pool, started *admin.Outcome,
) (done admin.ProjectionRollback, err error) {
	var o admin.Operation
	if err := json.Unmarshal(started.Detail, &o); err != nil {
		return done, err
	}
	if err := json.Unmarshal(o.Request, &done); err != nil {
		return done, err
	}
	if workers, err := lease.Workers(ctx, pool); err == nil && len(workers) == 0 {
		env.Note("No worker is running: start one, and it rolls back. To withdraw the rollback: tidemark operation "+
			"abort %d", o.ID)
	}
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for {
		now, err := admin.On(pool).Operation(ctx, o.ID)
		switch {
		case ctx.Err() != nil:
			err := cli.Exitf(cli.ExitPartial,
				"interrupted: the wait, not the rollback, which a worker does; to withdraw it: tidemark operation "+
					"abort %d", o.ID)
			return done, cli.Hint(err, "tidemark operation show %d", o.ID)
		case err != nil:
			return done, err
		case now.State == "done":
			return done, nil
		case now.State == "aborted":
			return done, cli.Hint(cli.Exitf(cli.ExitConflict, "%s has aborted the rollback", now.EndedBy),
				"tidemark operation show %d", o.ID)
		case now.State == "failed":
			return done, cli.Hint(errors.New(now.Error), "tidemark operation show %d", o.ID)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
