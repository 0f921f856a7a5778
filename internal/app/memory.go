package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// A worker lives on little memory, most of it for a moment: at Go's usual GOGC of 100 a third of its
// own time is collection. So GOGC is 400, under a limit that bounds what the process holds.
const (
	mostGarbage = 400 // percent of what is in use, as GOGC has it

	leastMemory = 96 << 20 // below it there is no need to collect earlier
	memoryStep  = 16 << 20 // each change of the limit stops the world

	memoryEvery = time.Second
	memoryPeak  = 5 // readings: what is in use for less long is a peak
	liveHeap    = "/gc/heap/live:bytes"
)

// memoryLimit is GOMEMLIMIT by what was in use in the last seconds: twice as much, so that what is to be freed stays
// bounded, and collections stay rare. A peak of one second counts half as much again: what it took is free at once.
func memoryLimit(inUse ...uint64) int64 {
	limit := max(2*slices.Min(inUse), 3*slices.Max(inUse)/2)
	return int64(max(leastMemory, (limit+memoryStep-1)/memoryStep*memoryStep))
}

// boundMemory sets GOMEMLIMIT by what the last collections have left, until ctx ends.
func boundMemory(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	var inUse []uint64
	for last := int64(0); ; {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		inUse = append(inUse, sample[0].Value.Uint64())
		inUse = inUse[max(0, len(inUse)-memoryPeak):]
		if limit := memoryLimit(inUse...); limit != last {
			debug.SetMemoryLimit(limit)
			last = limit
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
