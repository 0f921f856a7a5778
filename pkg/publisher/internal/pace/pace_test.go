package pace

import (
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		5: 1600 * time.Millisecond, 8: 10 * time.Second, 100: 10 * time.Second,
	} {
		for _, random := range []float64{0, 0.5, 0.999} {
			if got := Backoff(failures, 10*time.Second, random); got < want*3/4 || got > want*5/4 {
				t.Errorf("after %d failures: %s", failures, got)
			}
		}
	}
}
