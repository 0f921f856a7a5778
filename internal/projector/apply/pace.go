package apply

import (
	"math"
	"sync"
	"time"

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

// ShareBurst is how much unused time of rebuilds is saved up. Overdrafts have no limit: a group costs what it costs.
const ShareBurst = 200 * time.Millisecond

// Share limits the time that this worker spends on rebuilds, by a budget that grows with the clock.
type Share struct {
	mu      sync.Mutex
	Workers int
	Most    float64 // of the time of all of them; 1 or more: no limit
	Budget  time.Duration
	at      time.Time // when the budget was last updated
}

// Set changes the share.
func (s *Share) Set(most float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Most = most
}

// Wait returns how long to wait until there is time for a rebuild; 0: there is.
func (s *Share) Wait(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Most >= 1 {
		return 0
	}
	perSecond := s.Most * float64(s.Workers)
	if !s.at.IsZero() {
		s.Budget = min(s.Budget+time.Duration(perSecond*float64(now.Sub(s.at))), ShareBurst)
	}
	s.at = now
	if s.Budget >= 0 {
		return 0
	}
	return time.Duration(float64(-s.Budget)/perSecond) + 1 // rounded up, or the wait might never suffice
}

// Spend charges the part of a group's cost that went to rebuilds.
func (s *Share) Spend(units []*Unit, cost time.Duration) {
	n := 0
	for _, u := range units {
		if u.Standing != nil {
			if _, set := registry.Split(u.Standing.Projection); set == registry.NextTables {
				n++
			}
		}
	}
	if n > 0 {
		s.Charge(time.Duration(float64(cost) * float64(n) / float64(len(units))))
	}
}

// Charge takes a cost from the budget.
func (s *Share) Charge(cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Budget -= cost
}
