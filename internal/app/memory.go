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

	// A worker that allocates less in a second is idle. It does not keep more garbage than this: what a burst
	// has left would stay for two minutes.
	idleAllocates = 1 << 20
	idleGarbage   = 16 << 20
)

// usage is a reading of the Go runtime's metrics, in bytes.
type usage struct {
	live      uint64 // found by the last collection
	objects   uint64 // with garbage
	allocated uint64 // since the process began
}

func readUsage() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return usage{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
}

// givesBack reports whether the process is to give memory back to the system, a moment after another reading.
func (u usage) givesBack(before usage) bool {
	return u.allocated-before.allocated < idleAllocates && u.objects > u.live+idleGarbage
}

// memoryLimit returns the GOMEMLIMIT for the last readings: twice the smallest, so garbage stays
// bounded and collections rare, and at least one and a half times the largest. A peak of a second
// gets less because its memory is free at once.
func memoryLimit(inUse ...uint64) int64 {
	limit := max(2*slices.Min(inUse), 3*slices.Max(inUse)/2)
	return int64(max(leastMemory, (limit+memoryStep-1)/memoryStep*memoryStep))
}

// boundMemory sets GOMEMLIMIT from the live heap after the last collections, until ctx ends. It gives memory back to
// the system once the worker is idle.
func boundMemory(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	var inUse []uint64
	before := readUsage()
	for last := int64(0); ; {
		now := readUsage()
		inUse = append(inUse, now.live)
		inUse = inUse[max(0, len(inUse)-memoryPeak):]
		if limit := memoryLimit(inUse...); limit != last {
			debug.SetMemoryLimit(limit)
			last = limit
		}
		if now.givesBack(before) {
			debug.FreeOSMemory()
			now = readUsage()
		}
		before = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
