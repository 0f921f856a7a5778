// Package pulse tells loops that go round from loops that are stuck, without a query: liveness probes
// ask it. A loop says by when it will be back, or that it waits for
// a user's code and may do so for ever. One that is not back in time is stuck.
package pulse

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pulse is the loops of one component. The zero value has none. It is safe for concurrent use.
type Pulse struct {
	mu    sync.Mutex
	loops []*Loop
}

// Loop is one of them. All its methods do nothing where it is nil.
type Loop struct {
	name  string
	began time.Time    // durations are measured from here, by a clock that a suspended machine stops
	due   atomic.Int64 // nanoseconds after began; 0: nothing is expected
}

// Loop adds a loop, of which nothing is expected yet.
func (p *Pulse) Loop(name string) *Loop {
	l := &Loop{name: name, began: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loops = append(p.loops, l)
	return l
}

// Within promises that the loop is back within d.
func (l *Loop) Within(d time.Duration) {
	if l != nil {
		l.due.Store(max(1, int64(time.Since(l.began)+d)))
	}
}

// Rest says that nothing is expected of the loop until it promises again: it waits for others, or has ended.
func (l *Loop) Rest() {
	if l != nil {
		l.due.Store(0)
	}
}

// Stuck answers the loops that have not come back by at, in order of their names.
func (p *Pulse) Stuck(at time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, l := range p.loops {
		if due := l.due.Load(); due > 0 && int64(at.Sub(l.began)) > due {
			names = append(names, l.name)
		}
	}
	slices.Sort(names)
	return names
}

type key struct{}

// With returns a context that carries a loop.
func With(ctx context.Context, l *Loop) context.Context { return context.WithValue(ctx, key{}, l) }

// Of returns the loop that a context carries; nil if none.
func Of(ctx context.Context) *Loop {
	l, _ := ctx.Value(key{}).(*Loop)
	return l
}
