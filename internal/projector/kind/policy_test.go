package kind

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/projection"
)

func drawPolicy(t *rapid.T) projection.Policy {
	base := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(48*time.Hour)).Draw(t, "base"))
	p := projection.Policy{
		Action: projection.ActionRetry, Attempts: rapid.IntRange(1, 100).Draw(t, "attempts"), Base: base,
		Max:    base + time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "max")),
		Factor: rapid.Float64Range(1, 100).Draw(t, "factor"),
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAWaitIsTheLesserOfItsPowerAndTheMostGiveOrTakeTheJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, random := drawPolicy(t), rapid.Float64Range(0, 1).Draw(t, "random")
		waits := waitsOf(p, random)
		if len(waits) == 0 || len(waits) > mostWaits {
			t.Fatalf("%d waits", len(waits))
		}
		for n, wait := range waits {
			ideal := min(float64(p.Base)*math.Pow(p.Factor, float64(n)), float64(p.Max))
			if low, high := ideal*(1-jitter)-2, ideal*(1+jitter)+2; float64(wait) < low || float64(wait) > high {
				t.Fatalf("wait %d is %v, want %v … %v", n+1, wait, time.Duration(low), time.Duration(high))
			}
			if n > 0 && wait < waits[n-1] {
				t.Fatalf("wait %d is %v, less than the one before, %v", n+1, wait, waits[n-1])
			}
		}
	})
}

func TestTheLastWaitGoesForAllFurtherFailures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		waits := waitsOf(p, 0.5)
		if last := waits[len(waits)-1]; len(waits) < mostWaits && p.Factor > 1 && last != p.Max {
			t.Fatalf("the last of %d waits is %v, not the longest, %v", len(waits), last, p.Max)
		}
	})
}

func TestTheDefaultWaitsDoubleFromASecondToFiveMinutes(t *testing.T) {
	t.Parallel()
	var got []string
	for _, wait := range waitsOf(projection.DefaultPolicy(), 0.5) {
		got = append(got, wait.String())
	}
	if want := "1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s"; strings.Join(got, " ") != want {
		t.Errorf("waits are %s, want %s", strings.Join(got, " "), want)
	}
	if low, high := waitsOf(projection.DefaultPolicy(), 0)[9], waitsOf(projection.DefaultPolicy(), 1)[9]; low != 270*time.Second ||
		high != 330*time.Second {
		t.Errorf("the longest wait is %v … %v, want five minutes give or take a tenth", low, high)
	}
}
