package apply

import (
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

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
		if u.Pair != nil {
			if _, set := registry.Split(u.Pair.Projection); set == registry.NextTables {
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	s.Charge(time.Duration(float64(cost) * float64(n) / float64(len(units))))
}

// Charge takes a cost from the budget.
func (s *Share) Charge(cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Budget -= cost
}
