package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// A worker uses little memory, most of it briefly. At Go's default GOGC of 100, a third of its own
// time is garbage collection. So GOGC is 400, and the memory limit bounds what the process holds.
const (
	mostGarbage = 400 // GOGC

	leastMemory = 96 << 20 // lowest limit: below it there is no need to collect earlier
	memoryStep  = 16 << 20 // each change of the limit stops the world

	memoryEvery = time.Second
	memoryPeak  = 5 // readings: a shorter rise is a peak
	liveHeap    = "/gc/heap/live:bytes"
)

// memoryLimit returns the GOMEMLIMIT for the last readings: twice the smallest, so garbage stays
// bounded and collections rare, and at least one and a half times the largest. A peak of a second
// gets less because its memory is free at once.
func memoryLimit(inUse ...uint64) int64 {
	limit := max(2*slices.Min(inUse), 3*slices.Max(inUse)/2)
	return int64(max(leastMemory, (limit+memoryStep-1)/memoryStep*memoryStep))
}

// boundMemory sets GOMEMLIMIT from the live heap after the last collections, until ctx ends.
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
