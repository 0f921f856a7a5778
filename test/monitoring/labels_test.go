package monitoring_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// catalogue maps the name of each series to its labels.
type catalogue map[string]labelSet

// newCatalogue returns the series that Prometheus has for the documented metrics.
func newCatalogue(metrics map[string]metric) catalogue {
	all := catalogue{
		"up":                            newLabelSet("job", "instance"),
		"process_cpu_seconds_total":     newLabelSet("job", "instance"),
		"process_resident_memory_bytes": newLabelSet("job", "instance"),
		"go_goroutines":                 newLabelSet("job", "instance"),
		"ALERTS": newLabelSet("job", "instance", "alertname", "alertstate", "severity", "consumer_group", "projection",
			"topic", "publisher", "status", "outcome", "section",
			"table"),
	}
	for name, m := range metrics {
		scraped := m.labels.with("job", "instance")
		if m.kind != "histogram" {
			all[name] = scraped
			continue
		}
		all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = scraped.with("le"), scraped, scraped
	}
	return all
}

// labelsOf returns the labels of an expression's result. It returns an error if a series or a label
// does not exist, or if two sides can never match. A scalar has a nil set.
func (c catalogue) labelsOf(expr parser.Expr) (labelSet, error) {
	switch e := expr.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil, nil
	case *parser.ParenExpr:
		return c.labelsOf(e.Expr)
	case *parser.UnaryExpr:
		return c.labelsOf(e.Expr)
	case *parser.StepInvariantExpr:
		return c.labelsOf(e.Expr)
	case *parser.SubqueryExpr:
		return c.labelsOf(e.Expr)
	case *parser.MatrixSelector:
		return c.labelsOf(e.VectorSelector)
	case *parser.VectorSelector:
		return c.selected(e)
	case *parser.Call:
		return c.called(e)
	case *parser.AggregateExpr:
		return c.aggregated(e)
	case *parser.BinaryExpr:
		return c.matched(e)
	}
	return nil, fmt.Errorf("%s: a %T, of which this test knows nothing", expr, expr)
}

func (c catalogue) selected(e *parser.VectorSelector) (labelSet, error) {
	known, ok := c[e.Name]
	if !ok {
		return nil, fmt.Errorf("there is no %s", e.Name)
	}
	for _, m := range e.LabelMatchers {
		if m.Name != model.MetricNameLabel && !known[m.Name] {
			return nil, fmt.Errorf("%s has no label %s, it has %s", e.Name, m.Name, known)
		}
	}
	return known, nil
}

func (c catalogue) called(e *parser.Call) (labelSet, error) {
	var result labelSet
	for _, arg := range e.Args {
		l, err := c.labelsOf(arg)
		if err != nil {
			return nil, err
		}
		if l != nil {
			result = l
		}
	}
	switch e.Func.Name {
	case "histogram_quantile":
		if !result["le"] {
			return nil, fmt.Errorf("%s: buckets without le", e)
		}
		return result.without("le"), nil
	case "vector", "absent":
		return labelSet{}, nil
	}
	return result, nil
}

func (c catalogue) aggregated(e *parser.AggregateExpr) (labelSet, error) {
	inner, err := c.labelsOf(e.Expr)
	if err != nil {
		return nil, err
	}
	for _, l := range e.Grouping {
		if !inner[l] {
			return nil, fmt.Errorf("%s: what is grouped has no label %s, it has %s", e, l, inner)
		}
	}
	if e.Without {
		return inner.without(e.Grouping...), nil
	}
	return newLabelSet(e.Grouping...), nil
}

func (c catalogue) matched(e *parser.BinaryExpr) (labelSet, error) {
	left, err := c.labelsOf(e.LHS)
	right, err2 := c.labelsOf(e.RHS)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if left == nil || right == nil {
		return left.orElse(right), nil
	}
	if e.Op == parser.LOR {
		return left.with(strings.Split(right.String(), ", ")...), nil
	}
	l, r := left, right
	if e.VectorMatching.On {
		for _, name := range e.VectorMatching.MatchingLabels {
			if !left[name] || !right[name] {
				return nil, fmt.Errorf("%s: on (%s): the sides have %s and %s", e, name, left, right)
			}
		}
		return left, nil
	}
	l, r = l.without(e.VectorMatching.MatchingLabels...), r.without(e.VectorMatching.MatchingLabels...)
	if !maps.Equal(l, r) {
		return nil, fmt.Errorf("%s: the sides never match: they have %s and %s", e, left, right)
	}
	return left, nil
}

func (s labelSet) orElse(other labelSet) labelSet {
	if s != nil {
		return s
	}
	return other
}
