package pages

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/status"
)

// sampleEvery lies between two looks of a history.
const sampleEvery = 10 * time.Second

// history is what this process has seen last: the menu counts by it, and speeds are told from it.
type history struct {
	reader *status.Reader
	log    *slog.Logger
	last   atomic.Pointer[status.Status] // nil: nothing yet
}

// sections are what the overview shows.
func sections() []status.Section {
	return []status.Section{
		status.SectionQueue, status.SectionLag, status.SectionDeferred, status.SectionPauses, status.SectionWorkers,
		status.SectionRebuilds, status.SectionPublishers, status.SectionJournal,
		status.SectionPostgres,
	}
}

// run looks every ten seconds until ctx ends, and returns nil.
func (h *history) run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if s, err := h.reader.Read(ctx, sections()...); err == nil {
			s.Compare(h.last.Load())
			h.last.Store(s)
		} else if ctx.Err() == nil {
			h.log.DebugContext(ctx, "look for what the menu counts", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
