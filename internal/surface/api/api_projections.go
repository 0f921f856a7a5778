package api

import (
	"net/http"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func (a *API) projectionRoutes() []Route {
	acts := a.cfg.Acts
	name := func(r *http.Request) string { return r.PathValue("projection") }
	return []Route{
		a.reads("/projections", "listProjections", func(r *http.Request) (any, error) {
			list, err := projector.Projections(r.Context(), a.cfg.Pool)
			return all(list), err
		}),
		a.reads("/rebuilds", "listRebuilds", a.section(status.SectionRebuilds, func(s *status.Status) any {
			return all(s.Rebuilds)
		})),
		does("/projections/{projection}/pause", "pauseProjection", admin.ActPause,
			act(a, func(r *http.Request, by admin.Request, b pauseBody) (*admin.Outcome, error) {
				return a.pauses(r, by, pause.Target{Group: b.Group, Projection: name(r)}, b)
			})),
		does("/projections/{projection}/resume", "resumeProjection", admin.ActResume,
			act(a, func(r *http.Request, by admin.Request, b groupBody) (*admin.Outcome, error) {
				return acts.Resume(r.Context(), by, pause.Target{Group: b.Group, Projection: name(r)})
			})),
		does("/projections/{projection}/rebuild", "startRebuild", admin.ActStartRebuild,
			act(a, func(r *http.Request, by admin.Request, b rebuildBody) (*admin.Outcome, error) {
				o, err := b.options()
				if err != nil {
					return nil, err
				}
				return acts.StartRebuild(r.Context(), by, name(r), o)
			})),
		does("/projections/{projection}/rebuild/swap", "swapRebuild", admin.ActSwapRebuild,
			act(a, func(r *http.Request, by admin.Request, b rebuildBody) (*admin.Outcome, error) {
				o, err := b.options()
				if err != nil {
					return nil, err
				}
				return acts.SwapRebuild(r.Context(), by, name(r), o)
			})),
		does("/projections/{projection}/rebuild/pause", "pauseRebuild", admin.ActPauseRebuild,
			act(a, func(r *http.Request, by admin.Request, b pauseBody) (*admin.Outcome, error) {
				d, err := span("for", b.For)
				if err != nil {
					return nil, err
				}
				return acts.PauseRebuild(r.Context(), by, b.Group, name(r), d)
			})),
		does("/projections/{projection}/rebuild/resume", "resumeRebuild", admin.ActResumeRebuild,
			act(a, func(r *http.Request, by admin.Request, b groupBody) (*admin.Outcome, error) {
				return acts.ResumeRebuild(r.Context(), by, b.Group, name(r))
			})),
		does("/projections/{projection}/rebuild/abort", "abortRebuild", admin.ActAbortRebuild,
			act(a, func(r *http.Request, by admin.Request, b typedBody) (*admin.Outcome, error) {
				by.Confirm = b.Confirm
				return acts.AbortRebuild(r.Context(), by, name(r))
			})),
		does("/projections/{projection}/rollback", "rollbackProjection", admin.ActRollback,
			act(a, func(r *http.Request, by admin.Request, b rollbackBody) (*admin.Outcome, error) {
				d, err := span("keep", b.Keep)
				if err != nil {
					return nil, err
				}
				by.Confirm = b.Confirm
				return acts.Rollback(r.Context(), by, name(r), projector.RollbackOptions{AllowBehind: b.AllowBehind, Keep: d})
			})),
		does("/projections/{projection}/backfill", "backfillProjection", admin.ActStartOperation,
			act(a, func(r *http.Request, by admin.Request, b tryBody) (*admin.Outcome, error) {
				if b.DryRun {
					return operator.Would(acts.PreviewBackfill(r.Context(), name(r)))
				}
				return acts.StartBackfill(r.Context(), by, name(r))
			})),
		does("/projections/{projection}/remove", "removeProjection", admin.ActRemove,
			act(a, func(r *http.Request, by admin.Request, b removeBody) (*admin.Outcome, error) {
				if b.DryRun {
					return operator.Would(acts.PreviewRemoval(r.Context(), name(r), b.Tables))
				}
				return acts.RemoveProjection(r.Context(), by, name(r), b.Tables, b.Confirm)
			})),
		does("/projections/{projection}/verify", "verifyProjection", admin.ActStartOperation,
			act(a, func(r *http.Request, by admin.Request, b verifyBody) (*admin.Outcome, error) {
				return acts.StartVerify(r.Context(), by, admin.Verification{
					Projection: name(r), Campaigns: b.Campaigns,
					Sample: b.Sample, Ignore: b.Ignore, Proof: b.Proof,
				})
			})),
	}
}

// rebuildBody has the fields of projector.RebuildOptions; what is not there has its default, or stays as it is.
type rebuildBody struct {
	Version     *int     `json:"version"`
	MaxShare    *float64 `json:"max_share"`
	AllowFailed *int64   `json:"allow_failed"`
	Keep        string   `json:"keep"`
	Verify      *int     `json:"verify"`
	Ignore      []string `json:"ignore"`
}

func (b rebuildBody) options() (projector.RebuildOptions, error) {
	o := projector.RebuildOptions{
		Version: b.Version, MaxShare: b.MaxShare, AllowFailed: b.AllowFailed, Verify: b.Verify,
		Ignore: b.Ignore,
	}
	d, err := span("keep", b.Keep)
	if d > 0 {
		o.Keep = &d
	}
	return o, err
}

type removeBody struct {
	Tables  bool   `json:"tables"`
	Confirm string `json:"confirm"`
	DryRun  bool   `json:"dry_run"`
}

type rollbackBody struct {
	AllowBehind int64  `json:"allow_behind"`
	Confirm     string `json:"confirm"`
	Keep        string `json:"keep"`
}

type verifyBody struct {
	Campaigns []string `json:"campaigns"`
	Sample    int      `json:"sample"`
	Ignore    []string `json:"ignore"`
	Proof     bool     `json:"proof"`
}
