package monitoring_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's root, relative to this package.
const root = "../.."

// labelSet is the set of a series' label names.
type labelSet map[string]bool

func newLabelSet(names ...string) labelSet {
	s := labelSet{}
	for _, n := range names {
		s[n] = true
	}
	return s
}

// with returns the union.
func (s labelSet) with(names ...string) labelSet {
	all := maps.Clone(s)
	for _, n := range names {
		all[n] = true
	}
	return all
}

// without returns the difference.
func (s labelSet) without(names ...string) labelSet {
	left := maps.Clone(s)
	for _, n := range names {
		delete(left, n)
	}
	return left
}

func (s labelSet) String() string { return strings.Join(slices.Sorted(maps.Keys(s)), ", ") }

// metric is a metric listed in docs/reference/metrics.md.
type metric struct {
	kind   string
	labels labelSet
}

// documented reads the tables of docs/reference/metrics.md.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(tidemark_\\w+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		m := metric{kind: row[2], labels: labelSet{}}
		for _, label := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			m.labels[label[1]] = true
		}
		if _, twice := all[row[1]]; twice {
			t.Errorf("docs/reference/metrics.md lists %s twice", row[1])
		}
		all[row[1]] = m
	}
	if len(all) < 80 {
		t.Fatalf("found %d metrics in docs/reference/metrics.md, there are more", len(all))
	}
	return all
}

func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	for name, m := range documented(t) {
		if m.labels["campaign"] || m.labels["campaign_id"] {
			t.Errorf("%s has a label for campaigns: there may be millions", name)
		}
		if counter := strings.HasSuffix(name, "_total"); counter != (m.kind == "counter") {
			t.Errorf("%s is a %s", name, m.kind)
		}
	}
}
