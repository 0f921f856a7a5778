package app

import "testing"

func TestGarbageIsBoundedByWhatIsInUse(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 30: 100} {
		if got := garbagePercent(live); got != want {
			t.Errorf("with %d MiB in use garbage is at most %d %%, want %d %%", live>>20, got, want)
		}
	}
}
