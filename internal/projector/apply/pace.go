package apply

import (
	"math"
	"sync"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

// firstClaim is the part of a claim that is one of before anything is known.
const firstClaim = 4

// Pace goes by the groups of late: how many campaigns make about one group, and how many events a group may have.
type Pace struct {
	most  int    // campaigns that a claim takes
	Limit *limit // of the events in a group

	mu      sync.Mutex
	average float64 // events a campaign; 0: there were no groups
}

// NewPace returns a pace before the first group.
func NewPace(cfg registry.Settings) *Pace {
	return &Pace{most: cfg.ClaimCampaigns, Limit: newLimit(cfg.GroupEvents)}
}

// Assignment is how many campaigns make about one group, going by those of late, and how many to claim
// at once: whole groups, as far as a claim goes. While nothing is known of groups a claim is a small
// one, so that it soon is.
func (s *Pace) Assignment() (size, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most = s.most
	size = int(math.Ceil(float64(s.Limit.Events()) / max(1, s.average)))
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

// limit is how many events a worker puts into one group: as many as configured, half as many after
// each failure of the infrastructure and each deadline, down to one, and an eighth more after each
// success. So a link that breaks often, or a handler too slow for a full group, makes progress all the
// same.
type limit struct {
	most int

	mu  sync.Mutex
	now int
}

func newLimit(most int) *limit { return &limit{most: most, now: most} }

func (l *limit) Events() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *limit) shrink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = max(1, l.now/2)
}

func (l *limit) grow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = min(l.most, l.now+max(1, l.now/8))
}
