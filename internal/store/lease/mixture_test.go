package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

func TestMixturesNameWhichWorkersLackWhichProjections(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	worker := func(group, host string, age time.Duration, names ...string) lease.Worker {
		w := lease.Worker{
			ConsumerGroup: group, Host: host, PID: len(host), StartedAt: now.Add(-age),
			Knows: map[string][]int{},
		}
		for _, name := range names {
			w.Knows[name] = []int{len(host)} // versions do not matter
		}
		return w
	}
	drained := worker("g", "drained", time.Hour, "b")
	drained.DrainedBy = "ada"
	for _, tt := range []struct {
		name    string
		workers []lease.Worker
		want    string // groups with their differences; !: no longer an upgrade
	}{
		{"the same", []lease.Worker{worker("g", "h", time.Hour, "a"), worker("g", "hh", time.Hour, "a")}, ""},
		{"groups of their own", []lease.Worker{worker("g", "h", time.Hour, "a"), worker("f", "h", time.Hour, "b")}, ""},
		{"one is drained", []lease.Worker{worker("g", "h", time.Hour, "a"), drained}, ""},
		{
			"different ones",
			[]lease.Worker{worker("g", "h", time.Hour, "a", "b"), worker("g", "hh", time.Hour, "b", "c")},
			"g!a is not in hh (process 2); c is not in h (process 1)",
		},
		{
			"an upgrade",
			[]lease.Worker{worker("g", "new", time.Minute, "a", "b"), worker("g", "old", time.Hour, "a")},
			"g b is not in old (process 3)",
		},
		{ // workers that came and went since do not matter
			"a fleet that scales", []lease.Worker{
				worker("g", "x", time.Hour, "a"), worker("g", "y", time.Hour, "b"), worker("g", "z", time.Minute, "a", "b"),
				worker("g", "u", 0, "b"),
				worker("g", "v", time.Second, "b"), worker("g", "w", 2*time.Second, "b"),
			}, "g!a is not in y (process 1), w (process 1), v (process 1) and 1 more; b is not in x (process 1)",
		},
	} {
		var got []string
		for _, m := range lease.Mixtures(tt.workers) {
			mark := "!"
			if m.Upgrade(now) {
				mark = " "
			}
			got = append(got, m.Group+mark+strings.TrimPrefix(m.String(), "its workers do not have the same projections: "))
		}
		if got := strings.Join(got, "\n"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
