package sqlfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector"
)

// onFailure reads a header such as "-- on failure: retry, attempts 5, base 2s". Above the handlers it
// is the projection's policy, below an "-- on:" line that of its types.
func (p *sqlParser) onFailure(line int, value string) {
	var policy projector.Policy
	action, settings := p.settings(line, "on failure", value)
	policy.Action = projector.Action(action)
	switch policy.Action {
	case projector.ActionRetry, projector.ActionDead, projector.ActionSkip, projector.ActionPause:
	default:
		p.errs.add(line, "on failure: %q: write retry, dead, skip or pause, then settings such as attempts 5, base 2s",
			action)
		return
	}
	for _, s := range settings {
		switch s.name {
		case "attempts":
			policy.Attempts = p.whole(line, s)
		case "base":
			policy.Base = p.duration(line, s)
		case "max":
			policy.Max = p.duration(line, s)
		case "timeout":
			policy.Timeout = p.duration(line, s)
		case "factor":
			policy.Factor = p.number(line, s)
		default:
			p.errs.add(line, "on failure: unknown setting %q: there are attempts, base, max, factor, timeout", s.name)
		}
	}
	if err := policy.Validate(); policy.Max > 0 && policy.Base > 0 && err != nil {
		p.errs.add(line, "on failure: %v", err)
	}
	if p.handler == nil {
		if p.failureLine > 0 {
			p.errs.add(line, "a second policy (the first is in line %d)", p.failureLine)
		}
		p.failureLine = line
		p.file.spec.OnFailure = policy
		return
	}
	if p.file.spec.OnFailureOf == nil {
		p.file.spec.OnFailureOf = map[string]projector.Policy{}
	}
	for _, eventType := range p.handler.types {
		if _, taken := p.file.spec.OnFailureOf[eventType]; taken {
			p.errs.add(line, "a second policy for %s", eventType)
		}
		p.file.spec.OnFailureOf[eventType] = policy
	}
}

// setting is a name and a value of a header: "base 2s".
type setting struct{ name, value string }

// settings cuts a header's value at its commas. The first part stands by itself; in the others a name
// and a value are separated by a blank.
func (p *sqlParser) settings(line int, header, value string) (first string, settings []setting) {
	parts := strings.Split(value, ",")
	for _, part := range parts[1:] {
		fields := strings.Fields(part)
		if len(fields) != 2 {
			p.errs.add(line, "%s: %q: write a name and a value, as in base 2s", header, strings.TrimSpace(part))
			continue
		}
		settings = append(settings, setting{fields[0], fields[1]})
	}
	return strings.TrimSpace(parts[0]), settings
}

func (p *sqlParser) whole(line int, s setting) int {
	n, err := strconv.ParseInt(s.value, 10, 32)
	if err != nil || n < 1 {
		p.errs.add(line, "%s %q: a whole number from 1", s.name, s.value)
	}
	return int(n)
}

func (p *sqlParser) number(line int, s setting) float64 {
	n, err := strconv.ParseFloat(s.value, 64)
	if err != nil || !(n >= 0) {
		p.errs.add(line, "%s %q: a number such as 1.5", s.name, s.value)
	}
	return n
}

func (p *sqlParser) duration(line int, s setting) time.Duration {
	d, err := time.ParseDuration(s.value)
	if err != nil || d <= 0 {
		p.errs.add(line, "%s %q: a time such as 500ms, 2s, 5m or 1h", s.name, s.value)
	}
	return d
}
