package projector

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// gapInterval is how long a worker that has looked for gaps waits before it looks again.
const gapInterval = time.Hour

// repairGaps looks for campaigns that would be left behind and has them filed, now and then. A gap that is not repaired this time is found again.
func (m *maintainer) repairGaps(ctx context.Context) {
	repair := outbox.Repair{Group: m.cfg.ConsumerGroup, By: "worker " + m.keeper.Owner, Reason: "found by the worker", Rate: m.cfg.GapRate, OnGap: func(g outbox.Gap, err error) {
		if err != nil {
			m.metrics.gaps.WithLabelValues(gapFailed).Inc()
			m.cfg.Logger.ErrorContext(ctx, "gap not repaired", "campaign", g.CampaignID, "checkpoint", g.Checkpoint, "head", g.Head, "error", err)
			return
		}
		m.metrics.gaps.WithLabelValues(gapRepaired).Inc()
		m.cfg.Logger.WarnContext(ctx, "gap repaired", "campaign", g.CampaignID, "checkpoint", g.Checkpoint, "head", g.Head)
		signal(m.listener.wake)
	}}
	for failures := 0; ctx.Err() == nil; {
		next := gapInterval
		done, err := repair.Run(ctx, m.cfg.Pool)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			next = m.backoff(failures)
			failures++
			m.cfg.Logger.WarnContext(ctx, "gaps not looked for", "error", err, "wait", next)
		default:
			failures = 0
			m.cfg.Logger.DebugContext(ctx, "looked for gaps", "campaigns", done.Campaigns, "gaps", done.Gaps, "failures", done.Failed)
		}
		pause(ctx, next)
	}
}
