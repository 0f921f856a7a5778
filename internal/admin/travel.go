package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Travel calls do with the code of a projection, for reads of past states. It allows one call at a time,
// because they use the worker's connections. Errors: [ErrNotHere], and those of do.
func (a *Acts) Travel(ctx context.Context, projection string, do func(*projector.Projector) error) error {
	if a.cfg.Projector == nil || !slices.Contains(a.cfg.Projections, projection) {
		return fmt.Errorf("projection %q: %w", projection, ErrNotHere)
	}
	select {
	case a.travels <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("projection %q: another look at the past is running: %w", projection, ctx.Err())
	}
	defer func() { <-a.travels }()
	return do(a.cfg.Projector)
}
