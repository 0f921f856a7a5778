package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/operator"
)

// remove removes the projections with their tables, then the consumer group, so that events create
// no more work for them. Missing parts are no error, so an interrupted removal can be repeated. The
// events stay in the journal, which keeps everything.
func remove(ctx context.Context, pool *pgxpool.Pool, stderr io.Writer) error {
	loaded, err := loadProjections()
	if err != nil {
		return fmt.Errorf("load projections: %w", err)
	}
	op := operator.Operator{DB: pool, Name: "githistory", Reason: "-remove"}
	for _, p := range loaded {
		if err := op.RemoveProjection(ctx, p.Spec().Name, true); err != nil && !errors.Is(err, operator.ErrNoProjection) {
			return err
		}
	}
	if err := op.RemoveGroup(ctx, consumerGroup); err != nil && !errors.Is(err, operator.ErrNoGroup) {
		return err
	}
	_, err = fmt.Fprintln(stderr,
		"removed the projection, its table and the consumer group; the events stay in the journal")
	return err
}
