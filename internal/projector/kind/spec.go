package kind

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// MostPartitions is the largest [projection.Spec].Partitions.
const MostPartitions = 64

// Prepared returns what applies a projection.
func Prepared(p projection.Projection) projection.Projection {
	return groupstate.Engine(p).(projection.Projection)
}

// Check returns the mistakes of a projection that [Prepared] returned, and of its spec.
func Check(p projection.Projection, s projection.Spec) error {
	var mistake error
	if kind, ok := p.(interface{ Mistake() error }); ok {
		mistake = kind.Mistake()
	}
	keys, takes := groupstate.Keys(p, &s)
	if keys != nil && !takes {
		mistake = errors.Join(mistake, fmt.Errorf("projection %s is of the type %T, with the Keys of a document across "+
			"campaigns: its own code would get an event once for each key, so register the document itself", s.Name, p))
	}
	return errors.Join(checkSpec(s, s.Key != nil || keys != nil), mistake)
}

// checkSpec returns the mistakes of a spec. keyed tells whether events name a key, or several.
func checkSpec(s projection.Spec, keyed bool) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`).MatchString(s.Name) {
		return fmt.Errorf("projection name %q: use 1 to 63 lower-case letters, digits and underscores, a letter first",
			s.Name)
	}
	if s.Version < 1 {
		return fmt.Errorf("projection %s: version is %d, versions start at 1", s.Name, s.Version)
	}
	switch s.Scope {
	case "", projection.ScopeCampaign:
		if s.Partitions != 0 || s.Key != nil || s.KeyColumn != "" {
			return fmt.Errorf("projection %s has a key or partitions, which only projections across campaigns have: "+
				"give it the scope %s, or take them out", s.Name, projection.ScopeJournal)
		}
	case projection.ScopeJournal:
		switch {
		case s.Partitions < 0 || s.Partitions > MostPartitions:
			return fmt.Errorf("projection %s has %d partitions: use 1 to %d", s.Name, s.Partitions, MostPartitions)
		case s.Partitions > 1 && !keyed:
			return fmt.Errorf("projection %s has %d partitions and no key to share its events out: give it a key, or one "+
				"partition", s.Name, s.Partitions)
		}
	default:
		return fmt.Errorf("projection %s has the scope %q: use %s or %s", s.Name, s.Scope,
			projection.ScopeCampaign, projection.ScopeJournal)
	}
	return nil
}
