package rebuild

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"

	"github.com/tidemark-go/tidemark/internal/projector/claim"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

const (
	pruneEvery = time.Hour // on average
	pruneRows  = 1000      // per transaction
	pruneBatch = 100       // transactions per run: what is left waits for the next

	gapInterval = time.Hour // from the end of one look for gaps to the next
)

// Maintainer prunes the failure log and repairs gaps.
type Maintainer struct {
	*registry.Base
	Listener *claim.Listener
}

// PruneLog prunes the failure log every now and then.
func (m *Maintainer) PruneLog(ctx context.Context) {
	for loops.Sleep(ctx, time.Duration((0.5+rand.Float64())*float64(pruneEvery))) {
		n, err := m.Prune(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			m.Cfg.Logger.WarnContext(ctx, "failure log not pruned", "error", err)
		case n > 0:
			m.Cfg.Logger.InfoContext(ctx, "failure log pruned", "rows", n, "older_than", m.Cfg.FailureLogRetention)
		}
	}
}

// Prune deletes old rows until none are left, or pruneBatch transactions are done.
func (m *Maintainer) Prune(ctx context.Context) (total int64, err error) {
	for range pruneBatch {
		bounded, cancel := m.Bounded(ctx)
		n, err := failed.Prune(bounded, m.Cfg.Pool, m.Cfg.FailureLogRetention, pruneRows)
		cancel()
		total += n
		if err != nil || n < pruneRows {
			return total, err
		}
	}
	return total, nil
}

// RepairGaps regularly looks for campaigns that would be left behind, and queues them. Gaps left are found again.
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
			loops.Signal(m.Listener.Wake)
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
		loops.Sleep(ctx, next)
	}
}
