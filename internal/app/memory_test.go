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
