package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

// rebuildRequest is what is asked of a rebuild.
type rebuildRequest struct {
	Projection  string   `json:"projection"`
	Version     *int     `json:"version,omitempty"`
	MaxShare    *float64 `json:"max_share,omitempty"`
	AllowFailed *int64   `json:"allow_failed,omitempty"`
	Keep        string   `json:"keep,omitempty"`
	Verify      *int     `json:"verify,omitempty"`
	Ignore      []string `json:"ignore,omitempty"`
	AllowBehind int64    `json:"allow_behind,omitempty"`
}

func asked(name string, o rebuild.Options) rebuildRequest {
	r := rebuildRequest{
		Projection: name, Version: o.Version, MaxShare: o.MaxShare, AllowFailed: o.AllowFailed,
		Verify: o.Verify, Ignore: o.Ignore,
	}
	if o.Keep != nil {
		r.Keep = o.Keep.String()
	}
	return r
}

type begunResult struct {
	Begun bool `json:"begun"` // false: it had begun, and has new options
}

// StartRebuild begins a rebuild of a projection, or changes the options of the one that has begun.
// Errors are those of [rebuild.StartRebuild].
func (a Projections) StartRebuild(ctx context.Context, r Request, name string, o rebuild.Options) (*Outcome, error) {
	return a.rebuild(ctx, r, ActStartRebuild, name, o)
}

// SwapRebuild has the exchange of a rebuild that is under way tried again, with other options if
// some are given: how many campaigns may be failed, how many are verified. Errors are those of
// [rebuild.StartRebuild], and [rebuild.ErrNoRebuild].
func (a Projections) SwapRebuild(ctx context.Context, r Request, name string, o rebuild.Options) (*Outcome, error) {
	return a.rebuild(ctx, r, ActSwapRebuild, name, o)
}

func (a Projections) rebuild(
	ctx context.Context, r Request, kind Kind, name string, o rebuild.Options,
) (*Outcome, error) {
	return a.acts.do(ctx, act{Request: r, kind: kind, request: asked(name, o)},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			begun, err := rebuild.StartRebuild(ctx, tx, name, o, r.act())
			if err == nil && begun && kind == ActSwapRebuild {
				err = fmt.Errorf("swap projection %q: %w", name, rebuild.ErrNoRebuild)
			}
			return begunResult{begun}, err
		})
}

// PauseRebuild has a rebuild wait, for d or until it is resumed if d is 0. Errors: [rebuild.ErrNoRebuild],
// and those of [pause.Set].
func (a Projections) PauseRebuild(ctx context.Context, r Request, name string, d time.Duration) (*Outcome, error) {
	return a.onRebuild(ctx, r, ActPauseRebuild, name, d)
}

// ResumeRebuild has it go on. Errors are those of [pause.Resume].
func (a Projections) ResumeRebuild(ctx context.Context, r Request, name string) (*Outcome, error) {
	return a.onRebuild(ctx, r, ActResumeRebuild, name, 0)
}

func (a Projections) onRebuild(
	ctx context.Context, r Request, kind Kind, name string, d time.Duration,
) (*Outcome, error) {
	group, err := a.acts.GroupOf(ctx, name)
	if err != nil {
		return nil, err
	}
	o, err := a.acts.pause(ctx, r, kind, pause.Target{Group: group, Projection: rebuild.NameOf(name)}, d)
	if errors.Is(err, pause.ErrUnknown) {
		err = fmt.Errorf("projection %q: %w", name, rebuild.ErrNoRebuild)
	}
	return o, err
}

// AbortRebuild ends a rebuild and leaves nothing of it. The request confirms with the projection's
// name. Errors: [ErrDeclined], and those of [rebuild.AbortRebuild].
func (a Projections) AbortRebuild(ctx context.Context, r Request, name string) (*Outcome, error) {
	t := act{Request: r, kind: ActAbortRebuild, request: rebuildRequest{Projection: name}, confirm: name}
	return a.acts.doWith(ctx, t, func(ctx context.Context, db *recorder) (any, error) {
		return nil, rebuild.AbortRebuild(ctx, db, name, r.act())
	})
}

// ProjectionRollback puts the tables that a rebuild has replaced in their place again.
type ProjectionRollback struct {
	Projection   string        `json:"projection"`
	FromVersion  int           `json:"from_version"`  // of the tables that are read
	Version      int           `json:"version"`       // of those that come back
	RegisteredAt time.Time     `json:"registered_at"` // tells them from others of the same version
	AllowBehind  int64         `json:"allow_behind,omitempty"`
	Keep         time.Duration `json:"keep,omitempty"`
}

// Rollback has a worker put the tables that a rebuild has replaced in their place again. The
// exchange runs what the workers' role has made among the read models, so it is done as that role,
// never as the one who asks for it. The request confirms with the projection's name. The outcome's
// detail is the [Operation], whose error says why an exchange was not possible.
//
// Errors: [ErrDeclined], [ErrRollingBack], and those of [rebuild.CheckRollback].
func (a Projections) Rollback(
	ctx context.Context, r Request, name string, o rebuild.RollbackOptions,
) (*Outcome, error) {
	request := rebuildRequest{Projection: name, AllowBehind: o.AllowBehind}
	if o.Keep != 0 {
		request.Keep = o.Keep.String()
	}
	return a.acts.do(ctx, act{Request: r, kind: ActRollback, request: request, confirm: name},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			kept, err := rebuild.CheckRollback(ctx, tx, name, o)
			if err != nil {
				return nil, err
			}
			live, err := registered(ctx, tx, name)
			if err != nil {
				return nil, err
			}
			var other int64
			switch err := tx.QueryRow(ctx, queryRollingBack, name).Scan(&other); {
			case err == nil:
				return nil, fmt.Errorf("roll projection %q back: %w: it is operation %d", name, ErrRollingBack, other)
			case !errors.Is(err, pgx.ErrNoRows):
				return nil, err
			}
			id, err := insertOperation(ctx, tx, OpRollback, ProjectionRollback{
				Projection: name, FromVersion: live.Version, Version: kept.Version, RegisteredAt: kept.RegisteredAt,
				AllowBehind: o.AllowBehind, Keep: o.Keep,
			}, r)
			if err != nil {
				return nil, err
			}
			if _, err := tx.Exec(ctx, querySetTotal, id, 1); err != nil {
				return nil, err
			}
			return readOperation(ctx, tx, id)
		})
}

// removalRequest is what is removed.
type removalRequest struct {
	Group      string `json:"group,omitempty"`
	Projection string `json:"projection,omitempty"`
	Tables     bool   `json:"tables,omitempty"` // these too
}

// Remove takes a projection out of the registry for good, with its tables if that is said. The request
// confirms with its name. Errors: [ErrDeclined], [ErrNeeded], and those of [rebuild.Remove].
func (a Projections) Remove(ctx context.Context, r Request, name string, tables bool) (*Outcome, error) {
	asked := removalRequest{Projection: name, Tables: tables}
	return a.acts.doWith(ctx, act{Request: r, kind: ActRemove, request: asked, confirm: name},
		func(ctx context.Context, db *recorder) (any, error) {
			err := rebuild.Remove(ctx, db, name, tables, r.act())
			const dependentObjects = "2BP01"
			if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == dependentObjects {
				err = fmt.Errorf("%w: %w (%s): nothing was removed; its tables stay if they are left out", ErrNeeded, err,
					pgErr.Detail)
			}
			return nil, err
		})
}

// RemoveGroup ends a consumer group that has no projections any more. The request confirms with its name.
// Errors: [ErrDeclined], and those of [outbox.Unregister].
func (a *Acts) RemoveGroup(ctx context.Context, r Request, group string) (*Outcome, error) {
	return a.doWith(ctx, act{Request: r, kind: ActRemoveGroup, request: removalRequest{Group: group}, confirm: group},
		func(ctx context.Context, db *recorder) (any, error) {
			return nil, outbox.Unregister(ctx, db, group, r.Who.Name, r.Reason)
		})
}

// Removal is what would be removed.
type Removal struct {
	Group      string   `json:"group"`
	Projection *string  `json:"projection"` // null: the whole group
	Campaigns  int64    `json:"campaigns"`  // in which the projection is behind
	Tables     []string `json:"tables"`     // that would be dropped
}

// PreviewRemoval answers what [Projections.Remove] would remove. Errors: [rebuild.ErrUnknownProjection].
func (a Projections) PreviewRemoval(ctx context.Context, name string, tables bool) (Removal, error) {
	p, err := registered(ctx, a.acts.cfg.Pool, name)
	if err != nil {
		return Removal{}, err
	}
	out := Removal{Group: p.Group, Projection: &name, Tables: []string{}}
	if tables {
		for _, table := range p.Tables {
			out.Tables = append(out.Tables, p.Schema+"."+table)
		}
	}
	out.Campaigns, err = failed.Count(ctx, a.acts.cfg.Pool, failed.Filter{Group: p.Group, Projection: name})
	return out, err
}

// PreviewGroupRemoval answers what [Acts.RemoveGroup] would remove. Errors:
// [outbox.ErrNotRegistered], and [outbox.ErrInUse] for a group that has projections.
func (a *Acts) PreviewGroupRemoval(ctx context.Context, group string) (Removal, error) {
	if err := knownGroup(ctx, a.cfg.Pool, group); err != nil {
		return Removal{}, err
	}
	all, err := rebuild.Projections(ctx, a.cfg.Pool)
	if err != nil {
		return Removal{}, err
	}
	if i := slices.IndexFunc(all, func(p rebuild.Registered) bool { return p.Group == group }); i >= 0 {
		return Removal{}, fmt.Errorf("group %q has projection %q: %w", group, all[i].Name, outbox.ErrInUse)
	}
	return Removal{Group: group, Tables: []string{}}, nil
}
