package projector

import (
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// shareBurst is for how long the time of a rebuild may be saved up, and how far it may be overdrawn: a group costs what it costs.
const shareBurst = 200 * time.Millisecond

// share bounds the time that the goroutines of this worker spend on what is being rebuilt. It is a budget of time that grows with the clock.
type share struct {
	mu      sync.Mutex
	workers int
	most    float64 // of the time of all of them; 1 and more: all of it
	budget  time.Duration
	at      time.Time // when the budget was what it says
}

// set changes the share.
func (s *share) set(most float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// wait answers how long to wait until there is time for a rebuild; 0: there is.
func (s *share) wait(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most >= 1 {
		return 0
	}
	perSecond := s.most * float64(s.workers)
	if !s.at.IsZero() {
		s.budget = min(s.budget+time.Duration(perSecond*float64(now.Sub(s.at))), shareBurst)
	}
	s.at = now
	if s.budget >= 0 {
		return 0
	}
	return time.Duration(float64(-s.budget)/perSecond) + 1 // rounded up, or it might not be enough for ever
}

// spend takes what a group of units has cost from the budget, as far as it was about what is being rebuilt.
func (s *share) spend(units []*unit, cost time.Duration) {
	n := 0
	for _, u := range units {
		if u.pair != nil {
			if _, set := registry.Split(u.pair.Projection); set == registry.NextTables {
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	s.charge(time.Duration(float64(cost) * float64(n) / float64(len(units))))
}

// charge takes a cost from the budget.
func (s *share) charge(cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget -= cost
}
