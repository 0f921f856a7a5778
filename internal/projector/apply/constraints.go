package apply

import (
	"context"
	"errors"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// looksAhead says whether what COMMIT checks is to be checked at once, so that its failure has a
// culprit: after a COMMIT that failed, and where there will be no COMMIT.
func (t *Transaction) looksAhead() bool { return t.trying || t.Applier.uncommitted.Load() > 0 }

// lookAhead has the server check what a projection leaves to COMMIT.
func (t *Transaction) lookAhead(ctx context.Context, k *registry.Projection) error {
	if !t.looksAhead() {
		return nil
	}
	t.At = pipeline.Origin{Projection: k.Name}
	t.QueueLookAhead()
	return t.Flush(ctx)
}

// notCommitted notes that a transaction whose statements all went through has failed, for a reason
// that is not the infrastructure's: the next ones are applied savepointed, and look ahead.
func (a *Applier) notCommitted(ctx context.Context, err error) {
	var named *failure.ApplyError
	if err == nil || errors.As(err, &named) || errors.Is(err, lease.ErrLost) || a.Infrastructure(ctx, err) {
		return
	}
	a.uncommitted.Store(savepointsAfter)
}
