package app

import "testing"

func TestMemoryIsBoundedByWhatIsInUse(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		inUse []uint64 // MiB
		want  int64    // MiB
	}{
		{[]uint64{0}, 96},
		{[]uint64{48}, 96},
		{[]uint64{49}, 112},
		{[]uint64{1024}, 2048},
		{[]uint64{30, 60, 35}, 96},      // a peak
		{[]uint64{30, 100, 35}, 160},    // a peak that would not fit otherwise
		{[]uint64{60, 55, 70, 58}, 112}, // stays high
	} {
		inUse := make([]uint64, len(c.inUse))
		for i, n := range c.inUse {
			inUse[i] = n * mib
		}
		if got := memoryLimit(inUse...); got != c.want*mib {
			t.Errorf("with %d MiB in use the limit is %d MiB, want %d MiB", c.inUse, got/mib, c.want)
		}
	}
}

func TestAnIdleWorkerGivesBackWhatABurstHasLeft(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	before := usage{live: 20 * mib, objects: 30 * mib, allocated: 500 * mib}
	for name, c := range map[string]struct {
		now  usage
		want bool
	}{
		"garbage, idle":      {usage{20 * mib, 37 * mib, 500*mib + 1}, true},
		"garbage, busy":      {usage{20 * mib, 90 * mib, 501 * mib}, false},
		"little garbage":     {usage{20 * mib, 36 * mib, 500 * mib}, false},
		"all of it in use":   {usage{90 * mib, 90 * mib, 500 * mib}, false},
		"collected meantime": {usage{40 * mib, 35 * mib, 500 * mib}, false},
	} {
		if got := c.now.givesBack(before); got != c.want {
			t.Errorf("%s: gives back: %v", name, got)
		}
	}
}
