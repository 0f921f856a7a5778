package monitoring_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dashboardsDir = root + "/deploy/grafana/dashboards"

// dashboard holds the fields that these tests read.
type dashboard struct {
	UID         string
	Title       string
	Tags        []string
	Links       []link
	Templating  struct{ List []variable }
	Annotations struct {
		List []struct {
			Expr                    string
			TitleFormat, TextFormat string
		}
	}
	Panels []panel

	file string
}

type link struct{ Title, URL, Type string }

type variable struct {
	Name  string
	Type  string
	Query any // the text, or an object with it
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []target
	FieldConfig struct {
		Defaults struct {
			Unit     string
			Mappings []any
		}
	}
	Options struct {
		YAxis struct{ Unit string }
	}
	Links []link
}

type target struct{ RefID, Expr, Format, LegendFormat string }

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	var all []dashboard
	for path, content := range files(t, dashboardsDir+"/*.json") {
		d := dashboard{file: filepath.Base(path)}
		if err := json.Unmarshal(content, &d); err != nil {
			t.Fatalf("%s: %v", d.file, err)
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b dashboard) int { return strings.Compare(a.file, b.file) })
	return all
}

// chosen is the value of every variable.
const chosen = "chosen"

// substitute replaces the dashboard's variables in a query, as Grafana does. It fails the test for
// a variable that the dashboard does not define.
func (d dashboard) substitute(t *testing.T, query string) string {
	t.Helper()
	return regexp.MustCompile(`\$\{?(\w+)\}?`).ReplaceAllStringFunc(query, func(v string) string {
		name := strings.Trim(v, "${}")
		if name == "__rate_interval" {
			return "1m"
		}
		if !slices.ContainsFunc(d.Templating.List, func(v variable) bool { return v.Name == name }) {
			t.Errorf("%s: there is no variable %s: %s", d.file, v, query)
		}
		return chosen
	})
}

func TestDashboardsAreMadeOfMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	c := withRules(t, newCatalogue(documented(t)))
	for _, d := range dashboards(t) {
		check := func(where, expr string, legends ...string) {
			l, err := c.labelsOf(parse(t, d.file+": "+where, d.substitute(t, expr)))
			if err != nil {
				t.Errorf("%s: %s: %v", d.file, where, err)
			}
			for _, m := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(strings.Join(legends, " "), -1) {
				if !l[m[1]] {
					t.Errorf("%s: %s: the legend has a label %s, the result has %s", d.file, where, m[1], l)
				}
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				check(p.Title, target.Expr, target.LegendFormat)
			}
		}
		for _, a := range d.Annotations.List {
			check("annotations", a.Expr, a.TitleFormat, a.TextFormat)
		}
		for _, v := range d.Templating.List {
			if v.Type == "datasource" {
				continue
			}
			query := v.Query.(map[string]any)["query"].(string)
			m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(query)
			if m == nil {
				t.Errorf("%s: variable %s: %s", d.file, v.Name, query)
				continue
			}
			check("variable "+v.Name, m[1], "{{"+m[2]+"}}")
		}
	}
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	uids, variables := map[string]bool{}, map[string]bool{}
	for _, d := range dashboards(t) {
		if uids[d.UID] || !strings.HasPrefix(d.UID, "tidemark-") {
			t.Errorf("%s: the uid %q is taken, or does not begin with tidemark-", d.file, d.UID)
		}
		uids[d.UID] = true
		if !slices.Contains(d.Tags, "tidemark") || !slices.ContainsFunc(d.Links, func(l link) bool {
			return l.Type == "dashboards"
		}) {
			t.Errorf("%s is not linked with the others", d.file)
		}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have the id %d", d.file, p.ID)
			}
			ids[p.ID] = true
			if p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %s asks the data source %q, not the one that is chosen", d.file, p.Title, p.Datasource.UID)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %s lies upon %q, or beyond the edge", d.file, p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			checkUnit(t, d, p)
		}
	}
	for _, name := range []string{"datasource", "job", "group", "projection", "publisher"} {
		if !variables[name] {
			t.Errorf("no dashboard has a variable %s", name)
		}
	}
}

// checkUnit requires a unit for each panel with an axis, one that fits its content.
func checkUnit(t *testing.T, d dashboard, p panel) {
	t.Helper()
	unit := p.FieldConfig.Defaults.Unit
	switch p.Type {
	case "table":
		return
	case "state-timeline":
		if len(p.FieldConfig.Defaults.Mappings) == 0 {
			t.Errorf("%s: %s shows numbers for states", d.file, p.Title)
		}
		return
	case "heatmap":
		unit = p.Options.YAxis.Unit
		if p.Targets[0].Format != "heatmap" || !strings.Contains(p.Targets[0].Expr, "sum by (le) (rate(") {
			t.Errorf("%s: %s is no heat map of buckets", d.file, p.Title)
		}
	}
	if unit == "" {
		t.Errorf("%s: %s has no unit", d.file, p.Title)
	}
	for _, target := range p.Targets {
		expr := target.Expr
		seconds := strings.Contains(expr, "_seconds") && !strings.Contains(expr, "process_cpu_seconds_total")
		if seconds != (unit == "s") || strings.Contains(expr, "_bytes") != (unit == "bytes") ||
			strings.Contains(expr, "_ratio") && unit != "percentunit" {
			t.Errorf("%s: %s has the unit %q for %s", d.file, p.Title, unit, expr)
		}
	}
}

func TestDashboardsLeadToRunbooks(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	for path, content := range files(t, dashboardsDir+"/*.json") {
		if bytes.Contains(content, []byte("campaign_id")) {
			t.Errorf("%s speaks of single campaigns", path)
		}
		for _, m := range regexp.MustCompile(regexp.QuoteMeta(runbooksURL)+`#(\w+)"`).FindAllSubmatch(content, -1) {
			linked[string(m[1])] = true
		}
	}
	for alert := range runbooks(t) {
		if !linked[strings.ToLower(alert)] {
			t.Errorf("no panel leads to the runbook of %s", alert)
		}
	}
	for anchor := range linked {
		if strings.HasPrefix(anchor, "tidemark") && !slices.ContainsFunc(rules(t), func(r rule) bool {
			return strings.ToLower(r.Alert) == anchor
		}) {
			t.Errorf("a panel leads to a runbook %s, and there is none", anchor)
		}
	}
}
