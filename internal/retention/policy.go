package retention

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tidemark-go/tidemark/internal/bom"
	"github.com/tidemark-go/tidemark/internal/operator/param"
)

// Policy says which campaigns are archived, and how often it is looked for them.
type Policy struct {
	Name      string
	ClosedFor time.Duration // since the last event of a campaign
	Types     []string      // of the last event of a closed campaign
	Every     time.Duration // between two runs; default 1 h
	Rate      int           // events a second; default 5,000
}

const (
	defaultEvery = time.Hour
	leastEvery   = time.Minute
	defaultRate  = 5000
)

type file struct {
	Policies map[string]struct {
		ClosedFor days     `yaml:"closed_for"`
		ByType    []string `yaml:"by_type"`
		Every     days     `yaml:"every"`
		Rate      int      `yaml:"rate"`
	} `yaml:"policies"`
	Restore *struct {
		Keep days `yaml:"keep"`
	} `yaml:"restore"`
}

// days is a duration that is written like 90d or 12h.
type days time.Duration

// UnmarshalYAML reads the duration.
func (d *days) UnmarshalYAML(text []byte) error {
	var s string
	if err := yaml.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := param.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: %w: write it like 12h or 90d", s, err)
	}
	*d = days(parsed)
	return nil
}

// Load reads a file of policies. keep is for how long campaigns that appends have asked for are not
// archived again; 0: they are not brought back. The error names all that is wrong.
func Load(name string) (policies []Policy, keep time.Duration, err error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, err
	}
	var f file
	if err := yaml.UnmarshalWithOptions(bom.Trim(content), &f, yaml.Strict()); err != nil {
		return nil, 0, fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, false))
	}
	if len(f.Policies) == 0 && f.Restore == nil {
		return nil, 0, fmt.Errorf("%s: it has no policies: add one below policies, or restore", name)
	}
	var faults []error
	if f.Restore != nil {
		if keep = time.Duration(f.Restore.Keep); keep < leastEvery {
			faults = append(faults, fmt.Errorf("%s: restore: keep is %s, the least is %s", name, keep, leastEvery))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Policies)) {
		in := f.Policies[key]
		p := Policy{
			Name: key, ClosedFor: time.Duration(in.ClosedFor), Types: in.ByType, Rate: cmp.Or(in.Rate, defaultRate),
			Every: cmp.Or(time.Duration(in.Every), defaultEvery),
		}
		wrong := func(text string, args ...any) {
			faults = append(faults, fmt.Errorf("%s: policy %q: %s", name, key, fmt.Sprintf(text, args...)))
		}
		if p.ClosedFor == 0 {
			wrong("closed_for is missing: say how long a campaign is closed, like 90d")
		}
		if len(p.Types) == 0 || slices.Contains(p.Types, "") {
			wrong("by_type is empty: name the types of the last event of a closed campaign")
		}
		if p.Every < leastEvery {
			wrong("every is %s, the least is %s", p.Every, leastEvery)
		}
		if p.Rate < 1 {
			wrong("rate is %d events a second, the least is 1", p.Rate)
		}
		policies = append(policies, p)
	}
	return policies, keep, errors.Join(faults...)
}
