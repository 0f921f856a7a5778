package projector

import "sync"

// limit is how many events a worker puts into one group: as many as configured, half as many after each failure of the infrastructure and each deadline, down to one, and an
// eighth more after each success. So a link that breaks often, or a handler too slow for a full group, makes progress all the same.
type limit struct {
	most int

	mu  sync.Mutex
	now int
}

func newLimit(most int) *limit { return &limit{most: most, now: most} }

func (l *limit) events() int {
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
