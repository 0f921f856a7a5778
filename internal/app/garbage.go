package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A worker lives on little memory, most of it for a moment: at Go's usual 100 a third of its own time is
// collection. So up to four times of what is in use may be garbage while that is little, 64 MiB where it
// is more, and never less than as much again.
const (
	mostGarbage  = 400 // percent of what is in use, as GOGC has it
	leastGarbage = 100
	garbageBytes = 64 << 20

	garbageEvery = time.Second
	liveHeap     = "/gc/heap/live:bytes"
)

// garbagePercent is GOGC for so many bytes in use.
func garbagePercent(live uint64) int {
	return int(min(max(100*garbageBytes/max(live, 1), leastGarbage), mostGarbage))
}

// boundGarbage sets GOGC by what the last collection has left, until ctx ends.
func boundGarbage(ctx context.Context) {
	tick := time.NewTicker(garbageEvery)
	defer tick.Stop()
	percent := mostGarbage
	for {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		if next := garbagePercent(sample[0].Value.Uint64()); next != percent { // each change stops the world
			debug.SetGCPercent(next)
			percent = next
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
