package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// remove removes the projections with their tables, then the consumer group, so that events create
// no more work for them. Missing parts are no error, so an interrupted removal can be repeated. The
// events stay in the journal, which keeps everything.
func remove(ctx context.Context, pool *pgxpool.Pool, stderr io.Writer) error {
	loaded, err := loadProjections()
	if err != nil {
		return fmt.Errorf("load projections: %w", err)
	}
	act := failed.Act{By: "githistory", Reason: "-remove"}
	for _, p := range loaded {
		if err := rebuild.Remove(ctx, pool, p.Spec().Name, true, act); err != nil &&
			!errors.Is(err, rebuild.ErrUnknownProjection) {
			return err
		}
	}
	if err := outbox.Unregister(ctx, pool, consumerGroup, act.By, act.Reason); err != nil &&
		!errors.Is(err, outbox.ErrNotRegistered) {
		return err
	}
	_, err = fmt.Fprintln(stderr,
		"removed the projection, its table and the consumer group; the events stay in the journal")
	return err
}
