// Package applies measures how fast a worker applies a backlog: against a bare loop and other
// systems, and beside failures and rebuilds.
package applies

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

// denseGroups and sparseGroups are the grouping of work on both sides.
func denseGroups() Grouping  { return Grouping{Connections: 4, Campaigns: 64, Events: 5000} }
func sparseGroups() Grouping { return Grouping{Connections: 4, Campaigns: 256, Events: 2000} }

func dense(b *harness.Bench) harness.Workload {
	return harness.Workload{Campaigns: b.Scaled(3000), Events: 100}
}

func sparse(b *harness.Bench) harness.Workload {
	return harness.Workload{Campaigns: b.Scaled(100_000), Events: 1}
}

func MeasureDense(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	appended := dense(b)
	appended.Whole = true
	return measureApply(ctx, b, "dense", appended, denseGroups(),
		map[string]float64{harness.SQLFile().Name: 0.85, harness.GoHandler().Name: 0.85, harness.DocumentFold().Name: 2.5})
}

// MeasureDenseSingly applies a backlog with the maximum number of work items. The limit for
// documents is lower because each event has a work item to delete.
func MeasureDenseSingly(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	return measureApply(ctx, b, "dense_singly", dense(b), denseGroups(),
		map[string]float64{harness.SQLFile().Name: 0.85, harness.GoHandler().Name: 0.85, harness.DocumentFold().Name: 1.75})
}

func MeasureSparse(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	return measureApply(ctx, b, "sparse", sparse(b), sparseGroups(),
		map[string]float64{harness.SQLFile().Name: 0.6, harness.GoHandler().Name: 0.6, harness.DocumentFold().Name: 0.6})
}

// measureApply compares the kinds of projection with the bare loop, each on a copy of the same
// journal.
func measureApply(
	ctx context.Context, b *harness.Bench, name string, w harness.Workload, g Grouping, limits map[string]float64,
) ([]harness.Figure, error) {
	template, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	kinds := []harness.Kind{harness.SQLFile(), harness.GoHandler(), harness.DocumentFold()}
	sides := []harness.Side{
		b.On(template, "bare loop", bareLoop{workload: w, grouping: g}.run),
		b.On(template, "bare loop, SQL file's UPSERT", bareLoop{workload: w, grouping: g, payload: true}.run),
	}
	for _, kind := range kinds {
		sides = append(sides, b.On(template, kind.Name, backlog{kind: kind, workload: w, grouping: g}.run))
	}
	samples, err := b.Interleave(ctx, "events/s", sides...)
	if err != nil {
		return nil, err
	}
	var figures []harness.Figure
	for i, kind := range kinds {
		bare := samples[0]
		if i == 0 {
			bare = samples[1]
		}
		figures = append(figures, harness.AtLeast(limits[kind.Name], harness.Figure{
			Name: name + "_" + map[string]string{
				"SQL file": "sql_file", "Go handler": "go_handler",
				"document": "document",
			}[kind.Name],
			Value: samples[i+2].Median(), Unit: "events/s", Ratio: samples[i+2].Over(bare),
			To: fmt.Sprintf("a bare loop, %d × %d events", w.Campaigns, w.Events),
		}))
	}
	return figures, nil
}
