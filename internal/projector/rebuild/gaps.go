package rebuild

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// gapInterval is how long a worker that has looked for gaps waits before it looks again.
const gapInterval = time.Hour

// RepairGaps looks for campaigns that would be left behind and has them filed, now and then. A gap
// that is not repaired this time is found again.
func (m *Maintainer) RepairGaps(ctx context.Context) {
	repair := outbox.Repair{
		Group: m.Cfg.ConsumerGroup, By: "worker " + m.Keeper.Owner, Reason: "found by the worker",
		Rate: m.Cfg.GapRate, OnGap: func(g outbox.Gap, err error) {
			if err != nil {
				m.Metrics.Worker.Gaps.WithLabelValues(registry.GapFailed).Inc()
				m.Cfg.Logger.ErrorContext(ctx, "gap not repaired", "campaign", g.CampaignID, "checkpoint", g.Checkpoint,
					"head", g.Head, "error", err)
				return
			}
			m.Metrics.Worker.Gaps.WithLabelValues(registry.GapRepaired).Inc()
			m.Cfg.Logger.WarnContext(ctx, "gap repaired", "campaign", g.CampaignID, "checkpoint", g.Checkpoint, "head", g.Head)
			registry.Signal(m.Listener.Wake)
		},
	}
	for failures := 0; ctx.Err() == nil; {
		next := gapInterval
		done, err := repair.Run(ctx, m.Cfg.Pool)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			next = m.Backoff(failures)
			failures++
			m.Cfg.Logger.WarnContext(ctx, "gaps not looked for", "error", err, "wait", next)
		default:
			failures = 0
			m.Cfg.Logger.DebugContext(ctx, "looked for gaps", "campaigns", done.Campaigns, "gaps", done.Gaps,
				"failures", done.Failed)
		}
		registry.Sleep(ctx, next)
	}
}
