package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// UpgradeTime is how long a group's workers may differ during a rolling upgrade.
	UpgradeTime = 10 * time.Minute

	// namedWorkers is how many workers a text names.
	namedWorkers = 3
)

// Mixture is a consumer group whose workers have different projections. They hand campaigns over to
// each other, which costs rows of tidemark.deferred and a delay of a second.
type Mixture struct {
	Group   string
	Lacking []Lacking
	Since   time.Time // start of the later of the first two workers that differ
}

// Lacking is a projection and the workers of its group that have it in no version.
type Lacking struct {
	Projection string
	Workers    []Worker // ordered by start, oldest first
}

// Mixtures returns the groups whose workers have different projections, ordered by name. It ignores
// drained workers. Pass live workers only.
func Mixtures(workers []Worker) (mixtures []Mixture) {
	groups := map[string][]Worker{}
	for _, w := range workers {
		if w.DrainedBy == "" {
			groups[w.ConsumerGroup] = append(groups[w.ConsumerGroup], w)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		all := groups[group]
		slices.SortStableFunc(all, func(a, b Worker) int { return a.StartedAt.Compare(b.StartedAt) })
		having := map[string][]Worker{}
		for _, w := range all {
			for name := range w.Knows {
				having[name] = append(having[name], w)
			}
		}
		m := Mixture{Group: group}
		for _, name := range slices.Sorted(maps.Keys(having)) {
			if len(having[name]) == len(all) {
				continue
			}
			l := Lacking{Projection: name, Workers: slices.DeleteFunc(slices.Clone(all), func(w Worker) bool {
				return w.Knows[name] != nil
			})}
			m.Lacking = append(m.Lacking, l)
			since := l.Workers[0].StartedAt
			if other := having[name][0].StartedAt; other.After(since) {
				since = other
			}
			if m.Since.IsZero() || since.Before(m.Since) {
				m.Since = since
			}
		}
		if len(m.Lacking) > 0 {
			mixtures = append(mixtures, m)
		}
	}
	return mixtures
}

// Upgrade reports whether the mixture may be a rolling upgrade: it is younger than ten minutes.
func (m Mixture) Upgrade(now time.Time) bool { return now.Sub(m.Since) < UpgradeTime }

// String names the workers that lack projections.
func (m Mixture) String() string {
	parts := make([]string, len(m.Lacking))
	for i, l := range m.Lacking {
		var workers []string
		for _, w := range l.Workers[:min(len(l.Workers), namedWorkers)] {
			workers = append(workers, fmt.Sprintf("%s (process %d)", w.Host, w.PID))
		}
		parts[i] = fmt.Sprintf("%s is not in %s", l.Projection, strings.Join(workers, ", "))
		if more := len(l.Workers) - namedWorkers; more > 0 {
			parts[i] += fmt.Sprintf(" and %d more", more)
		}
	}
	return "its workers do not have the same projections: " + strings.Join(parts, "; ")
}

// Remedy returns the ways to end a mixture.
func (m Mixture) Remedy() string {
	return "give each program a consumer group of its own (TIDEMARK_CONSUMER_GROUP), or all of them the same " +
		"projections; a rolling upgrade ends it by itself"
}
