package acts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

// rebuildOptions can be set when a rebuild starts and changed while it runs.
type rebuildOptions struct {
	Version  *int           `form:"-" min:"1" help:"the version to build (default the highest that a worker has)"`
	MaxShare *float64       `form:"-" help:"maximum share of each worker's time for rebuilds (default 0.5)"`
	Keep     *time.Duration `form:"-" help:"how long to keep the replaced tables, such as 90m, 24h or 7d (default 24h)"`
	Verify   *int           `form:"-" help:"number of random campaigns to verify before the swap; 0: none (default 1000)"`
	Ignore   []string       `form:"-" help:"columns that this verification ignores: column or table.column"`
}

func (o rebuildOptions) with(allowFailed *int64) rebuild.Options {
	return rebuild.Options{
		Version: o.Version, MaxShare: o.MaxShare, AllowFailed: allowFailed, Keep: o.Keep, Verify: o.Verify, Ignore: o.Ignore,
	}
}

type rebuildStart struct {
	oneProjection
	AllowFailed *int64 `form:"-" help:"swap with up to this many failed campaigns in the new tables (default 0)"`
	rebuildOptions
}

type rebuildSwap struct {
	oneProjection
	AllowFailed *int64 `help:"swap with up to this many failed campaigns in the new tables (default unchanged)"`
	rebuildOptions
}

type rebuildPause struct {
	oneProjection
	lasting
}

type projectionRollback struct {
	oneProjection
	AllowBehind int64         `min:"-1" help:"roll back with up to this many campaigns behind; -1: any number"`
	Keep        time.Duration `form:"-" help:"how long to keep the tables swapped out, such as 24h or 7d (default 24h)"`
}

func rebuildActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActStartRebuild, Name: "startRebuild", Command: "projection rebuild",
			Path:  "/projections/{projection}/rebuild",
			Short: "Rebuild a projection in new tables and swap them in once they have caught up",
			Long: "Build new tables for a projection beside the live ones, from the first event of each campaign, " +
				"and swap them in once nothing is behind. All workers that have the code take part; readers and live " +
				"work go on. The replaced tables are kept for a while: projection rollback puts them back. A worker " +
				"that starts with a higher version of a projection starts its rebuild by itself. For a running " +
				"rebuild the command changes the given options and retries the swap. The failed campaigns of a " +
				"rebuild are listed under projection NAME~next.",
			Examples: []string{
				"projection rebuild scores --wait --reason 'totals were off by one'",
				"projection rebuild scores --max-share 0.2",
			},
			Button: "Rebuild", Hint: "New tables are built beside these and swapped in when they have caught up.",
		}, func(in *rebuildStart, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				began, err := rebuild.StartRebuild(ctx, tx, in.Projection, in.with(in.AllowFailed), by.Failed())
				return rebuildBegun{began}, err
			}
			d.Told = in.told("Workers with the code of " + in.Projection + " rebuild it now.")
		}),
		define(Act{
			Kind: admin.ActSwapRebuild, Name: "swapRebuild", Command: "projection swap-rebuild",
			Path:  "/projections/{projection}/rebuild/swap",
			Short: "Retry the swap of a rebuild",
			Long: "Retry the swap of a running rebuild, with other options if given, such as how many campaigns may " +
				"be failed.",
			Examples: []string{"projection swap-rebuild scores --allow-failed 3 --reason 'they are test data'"},
			Button:   "Swap now", Role: auth.Admin,
		}, func(in *rebuildSwap, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				began, err := rebuild.StartRebuild(ctx, tx, in.Projection, in.with(in.AllowFailed), by.Failed())
				if err == nil && began {
					err = fmt.Errorf("swap projection %q: %w", in.Projection, rebuild.ErrNoRebuild)
				}
				return rebuildBegun{began}, err
			}
			d.Told = in.told("A worker tries the swap of " + in.Projection + " again.")
		}),
		define(Act{
			Kind: admin.ActPauseRebuild, Name: "pauseRebuild", Command: "projection pause-rebuild",
			Path:  "/projections/{projection}/rebuild/pause",
			Short: "Pause the rebuild of a projection",
			Examples: []string{
				"projection pause-rebuild scores --reason 'the database is busy'",
				"projection pause-rebuild scores --for 4h",
			},
			Button: "Pause",
		}, func(in *rebuildPause, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return in.onTarget(ctx, tx, in.For, func(t pause.Target) error {
					return pause.Set(ctx, tx, t, by.Who.Name, by.Reason, in.For)
				})
			}
			d.Told = told(fmt.Sprintf("The rebuild of %s waits %s.", in.Projection, in.until()), "projection",
				"resume-rebuild", in.Projection)
		}),
		define(Act{
			Kind: admin.ActResumeRebuild, Name: "resumeRebuild", Command: "projection resume-rebuild",
			Path:     "/projections/{projection}/rebuild/resume",
			Short:    "Resume the rebuild of a projection",
			Examples: []string{"projection resume-rebuild scores"},
			Button:   "Resume",
		}, func(in *oneProjection, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return in.onTarget(ctx, tx, 0, func(t pause.Target) error {
					return pause.Resume(ctx, tx, t, by.Who.Name, by.Reason)
				})
			}
			d.Told = in.told("The rebuild of " + in.Projection + " goes on.")
		}),
		define(Act{
			Kind: admin.ActAbortRebuild, Name: "abortRebuild", Command: "projection abort-rebuild",
			Path:     "/projections/{projection}/rebuild/abort",
			Short:    "Abort the rebuild of a projection and remove what it has built",
			Examples: []string{"projection abort-rebuild scores --reason 'version 3 is wrong'"},
			Button:   "Abort", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *oneProjection, d *does) {
			d.Typed = in.Projection
			d.Would = "abort the rebuild of projection " + in.Projection + " and remove what it has built"
			d.Alone = func(ctx context.Context, db *admin.Recorder) (any, error) {
				left, err := rebuild.AbortRebuild(ctx, db, in.Projection, db.Failed())
				if err != nil || !left {
					return nil, err
				}
				return rebuildAborted{in.Projection, left}, nil
			}
			d.Told = func(done *admin.Outcome) Told {
				what := " and removed what it had built."
				if detail[rebuildAborted](done).Left {
					what = ". Its tables belong to the role of its workers: one of them removes them."
				}
				return Told{"Aborted the rebuild of " + in.Projection + what, []string{"projection", "list"}}
			}
		}),
		define(Act{
			Kind: admin.ActRollback, Name: "rollbackProjection", Command: "projection rollback",
			Path:  "/projections/{projection}/rollback",
			Short: "Put back the tables that a rebuild replaced",
			Long: "Put back the tables that a rebuild replaced. Workers of the previous version kept applying " +
				"events to them, so the tables are up to date. Where no such worker ran they are behind, and the " +
				"rollback is refused unless that is allowed. The tables swapped out are kept in turn: a second " +
				"rollback undoes the first. Any worker does it. If none is running, the next one that starts does it, " +
				"unless operation abort withdraws it first. The command asks for the projection's name.",
			Examples: []string{"projection rollback scores --reason 'version 3 is wrong'"},
			Button:   "Roll back", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *projectionRollback, d *does) {
			d.Typed = in.Projection
			d.Would = "put back the previous tables of projection " + in.Projection
			d.Do = in.start
			d.Told = begun("puts back the previous tables of " + in.Projection)
		}),
	}
}

// rebuildAborted is the outcome of an abort that leaves tables to workers.
type rebuildAborted struct {
	Projection string `json:"projection"`
	Left       bool   `json:"left"` // a worker removes the tables
}

// rebuildBegun is the outcome of startRebuild and swapRebuild.
type rebuildBegun struct {
	Begun bool `json:"begun"` // false: it was running and got the new options
}

func (in oneProjection) told(text string) func(*admin.Outcome) Told {
	return told(text, "projection", "rebuild", in.Projection, "--wait")
}

func (in oneProjection) onTarget(
	ctx context.Context, tx pgx.Tx, d time.Duration, do func(pause.Target) error,
) (any, error) {
	p, err := admin.Registered(ctx, tx, in.Projection)
	if err != nil {
		return nil, err
	}
	target := pause.Target{Group: p.Group, Projection: rebuild.NameOf(in.Projection)}
	if err = do(target); errors.Is(err, pause.ErrUnknown) {
		err = fmt.Errorf("projection %q: %w", in.Projection, rebuild.ErrNoRebuild)
	}
	return pausedAt(target, d), err
}

func (in *projectionRollback) start(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
	kept, err := rebuild.CheckRollback(ctx, tx, in.Projection,
		rebuild.RollbackOptions{AllowBehind: in.AllowBehind, Keep: in.Keep})
	if err != nil {
		return nil, err
	}
	live, err := admin.Registered(ctx, tx, in.Projection)
	if err != nil {
		return nil, err
	}
	return admin.StartRollback(ctx, tx, by, admin.ProjectionRollback{
		Projection: in.Projection, FromVersion: live.Version, Version: kept.Version, RegisteredAt: kept.RegisteredAt,
		AllowBehind: in.AllowBehind, Keep: in.Keep,
	})
}
