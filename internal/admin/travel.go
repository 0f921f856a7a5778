package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// AsOf answers the rows that a projection had of a campaign after event seq (0: before the first).
// It applies the campaign's events on one of the worker's connections, one such call at a time.
// Errors: [ErrNotHere], and those of [projector.Projector.AsOf].
func (a *Acts) AsOf(ctx context.Context, projection, campaignID string, seq int64) (state replay.State, err error) {
	err = a.travel(ctx, projection, func() error {
		state, err = a.cfg.Projector.AsOf(ctx, projection, campaignID, seq)
		return err
	})
	return state, err
}

// Diff answers which rows events after from up to to changed. Errors are those of [Acts.AsOf].
func (a *Acts) Diff(
	ctx context.Context, projection, campaignID string, from, to int64,
) (changes []replay.Change, err error) {
	err = a.travel(ctx, projection, func() error {
		changes, err = a.cfg.Projector.Diff(ctx, projection, campaignID, from, to)
		return err
	})
	return changes, err
}

// Why answers which events wrote a row. Errors are those of [Acts.AsOf], and of [projector.Projector.Why].
func (a *Acts) Why(ctx context.Context, r projector.WhyRequest) (why replay.Why, err error) {
	err = a.travel(ctx, r.Projection, func() error {
		why, err = a.cfg.Projector.Why(ctx, r)
		return err
	})
	return why, err
}

// Verify compares a projection's rows of one campaign with what the journal says, and answers up to
// most differences with their rows. Errors are those of [Acts.AsOf], and of
// [projector.Projector.Verify].
func (a *Acts) Verify(
	ctx context.Context, projection, campaignID string, ignore []string, most int,
) (report projector.VerifyReport, found []replay.Difference, err error) {
	request := projector.VerifyRequest{
		Projection: projection, Campaigns: []string{campaignID}, Ignore: ignore,
		Concurrency: 1, OnDifference: func(d replay.Difference) {
			if len(found) < most {
				found = append(found, d)
			}
		},
	}
	err = a.travel(ctx, registry.ProjectionOf(projection), func() error {
		report, err = a.cfg.Projector.Verify(ctx, request)
		return err
	})
	return report, found, err
}

func (a *Acts) travel(ctx context.Context, projection string, do func() error) error {
	if a.cfg.Projector == nil || !slices.Contains(a.cfg.Projections, projection) {
		return fmt.Errorf("projection %q: %w", projection, ErrNotHere)
	}
	select {
	case a.travels <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("projection %q: wait for another look at the past: %w", projection, ctx.Err())
	}
	defer func() { <-a.travels }()
	return do()
}
