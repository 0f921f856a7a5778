package projection

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTimersOfDifferentKeysHaveDifferentNames(t *testing.T) {
	t.Parallel()
	process := rapid.StringMatching(`[a-z][a-z0-9_]{0,3}`)
	text := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom([]rune("/:%1278ab é日")), 0, 6, -1), rapid.String())
	type timer struct{ process, key, name string }
	rapid.Check(t, func(t *rapid.T) {
		draw := func(which string) timer {
			return timer{
				process.Draw(t, which+" process"), text.Draw(t, which+" key"),
				text.Filter(func(s string) bool { return s != "" }).Draw(t, which+" timer"),
			}
		}
		one := draw("one")
		other := draw("other")
		if rapid.Bool().Draw(t, "cut elsewhere") { // the same letters with another end of the key
			all := strings.Join([]string{one.process, one.key, one.name}, "/")
			var cuts []timer
			for i := range all {
				for j := i + 1; j < len(all)-1; j++ {
					if all[i] == '/' && all[j] == '/' {
						cuts = append(cuts, timer{all[:i], all[i+1 : j], all[j+1:]})
					}
				}
			}
			if len(cuts) > 0 {
				other = rapid.SampledFrom(cuts).Draw(t, "cut")
			}
		}
		a, errA := timerName(one.process, one.key, one.name)
		b, errB := timerName(other.process, other.key, other.name)
		if errA != nil || errB != nil {
			return // TestTheNameOfATimerHasALimit has longer ones
		}
		if (*a == *b) != (one == other) {
			t.Errorf("%q and %q are named %q and %q", one, other, *a, *b)
		}
	})
}

func TestTheNameOfATimerHasALimit(t *testing.T) {
	t.Parallel()
	if name, err := timerName("p", "k", ""); name != nil || err != nil {
		t.Errorf("without a timer: %v, %v", name, err)
	}
	if _, err := timerName("p", strings.Repeat("k", 1990), "t"); err != nil {
		t.Error(err)
	}
	_, err := timerName("p", strings.Repeat("k", 1990), "timer")
	if err == nil || !strings.Contains(err.Error(), "2000") || !strings.Contains(err.Error(), "timer") {
		t.Errorf("got %v", err)
	}
}
