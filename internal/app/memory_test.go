package app

import "testing"

func TestMemoryIsBoundedByWhatIsInUse(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int64{0: 96, 40: 96, 48: 96, 49: 112, 100: 208, 1024: 2048} {
		if got := memoryLimit(live * mib); got != want*mib {
			t.Errorf("with %d MiB in use the limit is %d MiB, want %d MiB", live, got/mib, want)
		}
	}
}
