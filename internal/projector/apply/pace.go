package apply

import (
	"math"
	"sync"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

// firstClaim divides the configured size of a claim while nothing is known of groups.
const firstClaim = 4

// Pace follows the latest groups: how many campaigns make about one group, and how many events a
// group may have. The limit on events starts as configured. Each failure of the infrastructure and
// each deadline halves it, down to one; each success adds an eighth. So a link that breaks often,
// or a handler too slow for a full group, still makes progress.
type Pace struct {
	mostCampaigns int // in a claim
	mostEvents    int // in a group

	mu      sync.Mutex
	events  int     // allowed in a group now
	average float64 // events per campaign; 0: no group yet
}

// NewPace returns the pace before the first group.
func NewPace(cfg registry.Settings) *Pace {
	return &Pace{mostCampaigns: cfg.ClaimCampaigns, mostEvents: cfg.GroupEvents, events: cfg.GroupEvents}
}

// Assignment returns how many campaigns make about one group, and how many to claim at once: whole
// groups, up to the limit of a claim. The first claim is a small one, to learn about groups soon.
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

// Events returns how many events a group may have.
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
