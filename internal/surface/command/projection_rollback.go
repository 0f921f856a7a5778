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
	return newActAnd(env, "rollbackProjection", nil,
		func(ctx context.Context, c *actCommand, pool *pgxpool.Pool, name string, started *admin.Outcome) error {
			done, err := awaitRollback(ctx, env, pool, started)
			if err != nil {
				return err
			}
			if c.asJSON {
				return env.PrintJSON(rollbackJSON{
					Version: rebuildVersion, Act: "rolled_back", Projection: name,
					FromVersion: done.FromVersion, ToVersion: done.Version,
				})
			}
			env.Note("Projection %s shows version %d again, instead of %d; to undo it: tidemark projection rollback %[1]s",
				cli.Quote(name), done.Version, done.FromVersion)
			return nil
		})
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
