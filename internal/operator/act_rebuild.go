package operator

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

// rebuildOptions are those that a rebuild may be given when it starts, and later.
type rebuildOptions struct {
	Version  *int           `form:"-" min:"1" help:"the version to build (default the highest that a worker has)"`
	MaxShare *float64       `form:"-" help:"the share of each worker's time that rebuilds take at most (default 0.5)"`
	Keep     *time.Duration `form:"-" help:"how long the replaced tables are kept, such as 90m, 24h or 7d (default 24h)"`
	Verify   *int           `form:"-" help:"campaigns, at random, to verify before the swap; 0: none (default 1000)"`
	Ignore   []string       `form:"-" help:"columns that may differ then: column or table.column"`
}

func (o rebuildOptions) with(allowFailed *int64) rebuild.Options {
	return rebuild.Options{
		Version: o.Version, MaxShare: o.MaxShare, AllowFailed: allowFailed, Keep: o.Keep, Verify: o.Verify, Ignore: o.Ignore,
	}
}

type rebuildStart struct {
	oneProjection
	AllowFailed *int64 `form:"-" help:"swap although so many campaigns have failed in the new tables (default 0)"`
	rebuildOptions
}

type rebuildSwap struct {
	oneProjection
	AllowFailed *int64 `help:"swap although so many campaigns have failed in the new tables (default as it was)"`
	rebuildOptions
}

type rebuildPause struct {
	oneProjection
	lasting
}

type projectionRollback struct {
	oneProjection
	AllowBehind int64         `min:"-1" help:"go back although the tables are behind in so many campaigns; -1: any number"`
	Keep        time.Duration `form:"-" help:"how long the tables that make way are kept, such as 24h or 7d (default 24h)"`
}

func rebuildActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActStartRebuild, Name: "startRebuild", Command: "projection rebuild",
			Path:  "/projections/{projection}/rebuild",
			Short: "Build a projection's tables anew beside those that are read, and swap the two when all is caught up",
			Long: "Build a projection's tables anew beside those that are read, from the first event of each campaign, and " +
				"swap the two when nothing is left behind. All workers that have the code take part; readers and live work go " +
				"on. The tables that are replaced are kept for a while: projection rollback puts them back. A worker that " +
				"starts with a higher version of a projection begins its rebuild by itself. For a rebuild under way the " +
				"command changes the options that are given, and has the swap tried again. While it lasts its failed campaigns " +
				"are those of the projection NAME~next.",
			Examples: []string{
				"projection rebuild scores --wait --reason 'totals were off by one'",
				"projection rebuild scores --max-share 0.2",
			},
			Button: "Rebuild", Hint: "New tables are built beside these and swapped in when they have caught up.",
		}, func(in *rebuildStart) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					began, err := rebuild.StartRebuild(ctx, tx, in.Projection, in.with(in.AllowFailed), by.Failed())
					return rebuildBegun{began}, err
				},
				Told: in.told("Workers with the code of " + in.Projection + " rebuild it now."),
			}
		}),
		act(Act{
			Kind: admin.ActSwapRebuild, Name: "swapRebuild", Command: "projection swap-rebuild",
			Path:  "/projections/{projection}/rebuild/swap",
			Short: "Try the swap of a rebuild again",
			Long: "Try the swap of a rebuild that is under way again, with other options if some are given: how many " +
				"campaigns may be failed.",
			Examples: []string{"projection swap-rebuild scores --allow-failed 3 --reason 'they are test data'"},
			Button:   "Swap now", Role: auth.Admin,
		}, func(in *rebuildSwap) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					began, err := rebuild.StartRebuild(ctx, tx, in.Projection, in.with(in.AllowFailed), by.Failed())
					if err == nil && began {
						err = fmt.Errorf("swap projection %q: %w", in.Projection, rebuild.ErrNoRebuild)
					}
					return rebuildBegun{began}, err
				},
				Told: in.told("A worker tries the swap of " + in.Projection + " again."),
			}
		}),
		act(Act{
			Kind: admin.ActPauseRebuild, Name: "pauseRebuild", Command: "projection pause-rebuild",
			Path:  "/projections/{projection}/rebuild/pause",
			Short: "Let the rebuild of a projection wait until it is resumed, or for a time",
			Examples: []string{
				"projection pause-rebuild scores --reason 'the database is busy'",
				"projection pause-rebuild scores --for 4h",
			},
			Button: "Pause",
		}, func(in *rebuildPause) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					return in.onTarget(ctx, tx, in.For, func(t pause.Target) error {
						return pause.Set(ctx, tx, t, by.Who.Name, by.Reason, in.For)
					})
				},
				Told: told(fmt.Sprintf("The rebuild of %s waits %s.", in.Projection, in.until()), "projection",
					"resume-rebuild", in.Projection),
			}
		}),
		act(Act{
			Kind: admin.ActResumeRebuild, Name: "resumeRebuild", Command: "projection resume-rebuild",
			Path:     "/projections/{projection}/rebuild/resume",
			Short:    "Let the rebuild of a projection go on",
			Examples: []string{"projection resume-rebuild scores"},
			Button:   "Resume",
		}, func(in *oneProjection) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					return in.onTarget(ctx, tx, 0, func(t pause.Target) error {
						return pause.Resume(ctx, tx, t, by.Who.Name, by.Reason)
					})
				},
				Told: in.told("The rebuild of " + in.Projection + " goes on."),
			}
		}),
		act(Act{
			Kind: admin.ActAbortRebuild, Name: "abortRebuild", Command: "projection abort-rebuild",
			Path:     "/projections/{projection}/rebuild/abort",
			Short:    "End the rebuild of a projection and remove what it has built",
			Examples: []string{"projection abort-rebuild scores --reason 'version 3 is wrong'"},
			Button:   "Abort", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *oneProjection) does {
			return does{
				Typed: in.Projection,
				Would: "abort the rebuild of projection " + in.Projection + " and remove what it has built",
				Alone: func(ctx context.Context, _ *admin.Acts, db *admin.Recorder) (any, error) {
					return nil, rebuild.AbortRebuild(ctx, db, in.Projection, db.Failed())
				},
				Told: told("The rebuild of "+in.Projection+" is aborted; nothing of it is left.", "projection", "list"),
			}
		}),
		act(Act{
			Kind: admin.ActRollback, Name: "rollbackProjection", Command: "projection rollback",
			Path:  "/projections/{projection}/rollback",
			Short: "Put the tables that a rebuild has replaced in their place again",
			Long: "Let a worker put the tables that a rebuild has replaced in their place again. Workers that have their " +
				"version went on applying events to them, so that they are as they would be if they had never been replaced; " +
				"where no such worker ran they are behind, which is refused unless it is allowed. The tables that make way are " +
				"kept in turn: a second rollback undoes the first. Any worker does it. If none runs, it is done when one " +
				"starts, unless operation abort withdraws it before. It asks for the projection's name.",
			Examples: []string{"projection rollback scores --reason 'version 3 is wrong'"},
			Button:   "Roll back", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *projectionRollback) does {
			return does{
				Typed: in.Projection,
				Would: "have projection " + in.Projection + " show its previous tables",
				Do:    in.start,
				Told:  begun("puts the tables of " + in.Projection + " that were replaced in their place again"),
			}
		}),
	}
}

// rebuildBegun is what came of the options of a rebuild.
type rebuildBegun struct {
	Begun bool `json:"begun"` // false: it had begun, and has new options
}

// told tells what was done, and which command shows how far the rebuild is.
func (in oneProjection) told(text string) func(*admin.Outcome) Told {
	return told(text, "projection", "rebuild", in.Projection, "--wait")
}

// onTarget pauses or resumes the rebuild.
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

// start has a worker roll the projection back, unless that is refused at once.
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
