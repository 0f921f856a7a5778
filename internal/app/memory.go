package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A worker lives on little memory, most of it for a moment: at Go's usual GOGC of 100 a third of its
// own time is collection. So GOGC is 400, under a limit that bounds what the process holds.
const (
	mostGarbage = 400 // percent of what is in use, as GOGC has it

	leastMemory = 96 << 20 // below it there is no need to collect earlier
	memoryStep  = 16 << 20 // each change of the limit stops the world

	memoryEvery = time.Second
	liveHeap    = "/gc/heap/live:bytes"
)

// memoryLimit is GOMEMLIMIT for so many bytes in use: twice as many, so that what is to be freed stays
// bounded, and collections stay rare.
func memoryLimit(live uint64) int64 {
	return int64(max(leastMemory, (2*live+memoryStep-1)/memoryStep*memoryStep))
}

// boundMemory sets GOMEMLIMIT by what the last collection has left, until ctx ends.
func boundMemory(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for last := int64(0); ; {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		if limit := memoryLimit(sample[0].Value.Uint64()); limit != last {
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
