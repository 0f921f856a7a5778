package sqlfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projection"
)

// onFailure reads a header such as "-- on failure: retry, attempts 5, base 2s". Above the handlers
// it is the projection's policy, below an "-- on:" line the policy of its types.
func (p *sqlParser) onFailure(line int, value string) {
	action, rest, _ := strings.Cut(value, ",")
	policy := projection.Policy{Action: projection.Action(strings.TrimSpace(action))}
	switch policy.Action {
	case projection.ActionRetry, projection.ActionDead, projection.ActionSkip, projection.ActionPause:
	default:
		p.errs.add(line, "on failure: %q: write retry, dead, skip or pause, then settings such as attempts 5, base 2s",
			policy.Action)
		return
	}
	for rest != "" {
		var setting string
		setting, rest, _ = strings.Cut(rest, ",")
		p.policySetting(line, strings.TrimSpace(setting), &policy)
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
		p.file.spec.OnFailureOf = map[string]projection.Policy{}
	}
	for _, eventType := range p.handler.types {
		if _, taken := p.file.spec.OnFailureOf[eventType]; taken {
			p.errs.add(line, "a second policy for %s", eventType)
		}
		p.file.spec.OnFailureOf[eventType] = policy
	}
}

// policySetting reads a name and a value, as in "base 2s".
func (p *sqlParser) policySetting(line int, setting string, policy *projection.Policy) {
	fields := strings.Fields(setting)
	if len(fields) != 2 {
		p.errs.add(line, "on failure: %q: write a name and a value, as in base 2s", setting)
		return
	}
	name, value := fields[0], fields[1]
	times := map[string]*time.Duration{"base": &policy.Base, "max": &policy.Max, "timeout": &policy.Timeout}
	switch {
	case times[name] != nil:
		d, err := time.ParseDuration(value)
		if *times[name] = d; err != nil || d <= 0 {
			p.errs.add(line, "%s %q: a time such as 500ms, 2s, 5m or 1h", name, value)
		}
	case name == "attempts":
		n, err := strconv.ParseInt(value, 10, 32)
		if policy.Attempts = int(n); err != nil || n < 1 {
			p.errs.add(line, "attempts %q: a whole number from 1", value)
		}
	case name == "factor":
		n, err := strconv.ParseFloat(value, 64)
		if policy.Factor = n; err != nil || !(n >= 0) {
			p.errs.add(line, "factor %q: a number such as 1.5", value)
		}
	default:
		p.errs.add(line, "on failure: unknown setting %q: there are attempts, base, max, factor, timeout", name)
	}
}
