package apply

import (
	"math"
	"sync"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

// firstClaim is the part of a claim that is one of before anything is known.
const firstClaim = 4

// Pace goes by the groups of late: how many campaigns make about one group, and how many events a
// group may have. That is as many as configured, half as many after each failure of the
// infrastructure and each deadline, down to one, and an eighth more after each success. So a link
// that breaks often, or a handler too slow for a full group, makes progress all the same.
type Pace struct {
	mostCampaigns int // that a claim takes
	mostEvents    int // in a group

	mu      sync.Mutex
	events  int     // that a group may have now
	average float64 // events a campaign; 0: there were no groups
}

// NewPace returns a pace before the first group.
func NewPace(cfg registry.Settings) *Pace {
	return &Pace{mostCampaigns: cfg.ClaimCampaigns, mostEvents: cfg.GroupEvents, events: cfg.GroupEvents}
}

// Assignment is how many campaigns make about one group, going by those of late, and how many to claim
// at once: whole groups, as far as a claim goes. While nothing is known of groups a claim is a small
// one, so that it soon is.
func (s *Pace) Assignment() (size, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most = s.mostCampaigns
	size = int(math.Ceil(float64(s.events) / max(1, s.average)))
	if s.average == 0 {
		return size, max(1, most/firstClaim)
	}
	return size, max(most/size*size, min(size, most))
}

func (s *Pace) observe(campaigns, events int) {
	if campaigns == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := max(1, float64(events)/float64(campaigns))
	if s.average == 0 {
		s.average = now
	}
	s.average += 0.2 * (now - s.average)
}

// Events is how many events a group may have.
func (s *Pace) Events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

func (s *Pace) shrink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = max(1, s.events/2)
}

func (s *Pace) grow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = min(s.mostEvents, s.events+max(1, s.events/8))
}
