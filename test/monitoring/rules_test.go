package monitoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/promql/parser"
)

const prometheusDir = root + "/deploy/prometheus"

// rule is a recording rule or an alert.
type rule struct {
	Record      string
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string

	file string
}

func (r rule) name() string { return r.Record + r.Alert }

// files returns the contents of the files that match a pattern.
func files(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		if all[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// rules returns all rules, recording rules first.
func rules(t *testing.T) []rule {
	t.Helper()
	var recorded, alerts []rule
	for path, content := range files(t, prometheusDir+"/rules/*.yml") {
		var file struct{ Groups []struct{ Rules []rule } }
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				r.file = filepath.Base(path)
				if r.Record != "" {
					recorded = append(recorded, r)
				} else {
					alerts = append(alerts, r)
				}
			}
		}
	}
	return append(recorded, alerts...)
}

func parse(t *testing.T, where, expr string) parser.Expr {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return parsed
}

// withRules adds the recorded series to the catalogue. It fails the test if a rule uses something
// that does not exist.
func withRules(t *testing.T, c catalogue) catalogue {
	t.Helper()
	for _, r := range rules(t) {
		l, err := c.labelsOf(parse(t, r.name(), r.Expr))
		if err != nil {
			t.Errorf("%s: %s: %v", r.file, r.name(), err)
		}
		if r.Record != "" {
			c[r.Record] = l
			continue
		}
		for _, text := range r.Annotations {
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				if !l[m[1]] {
					t.Errorf("%s: %s: it speaks of a label %s, the alert has %s", r.file, r.Alert, m[1], l)
				}
			}
		}
	}
	return c
}

func TestRulesAreMadeOfMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	withRules(t, newCatalogue(documented(t)))
}

func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		uids["/d/"+d.UID] = true
	}
	sections := runbooks(t)
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has severity %q: critical or warning", r.Alert, s)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", r.Alert)
		}
		if !regexp.MustCompile(`\$value|\$labels\.status`).MatchString(r.Annotations["description"]) {
			t.Errorf("%s: the description does not say the value", r.Alert)
		}
		if got := r.Annotations["runbook_url"]; got != runbook(r.Alert) {
			t.Errorf("%s leads to %q, its runbook is %s", r.Alert, got, runbook(r.Alert))
		}
		if !uids[r.Annotations["dashboard"]] {
			t.Errorf("%s: no dashboard is at %q", r.Alert, r.Annotations["dashboard"])
		}
		if _, ok := sections[r.Alert]; !ok {
			t.Errorf("%s: docs/guides/operations/runbooks.md has no section of that name", r.Alert)
		}
		delete(sections, r.Alert)
	}
	for left := range sections {
		t.Errorf("docs/guides/operations/runbooks.md has a section %s, and there is no such alert", left)
	}
}
