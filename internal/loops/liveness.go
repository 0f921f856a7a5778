package loops

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pulse holds the loops of one component. The zero value has none. It is safe for concurrent use.
type Pulse struct {
	mu    sync.Mutex
	loops []*Loop
}

// Loop is one loop of a component. Methods of a nil Loop do nothing.
type Loop struct {
	name  string
	began time.Time    // base of due; its monotonic clock stops while the machine is suspended
	due   atomic.Int64 // nanoseconds after began; 0: no promise
}

// Loop adds a loop without a promise.
func (p *Pulse) Loop(name string) *Loop {
	l := &Loop{name: name, began: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loops = append(p.loops, l)
	return l
}

// Within promises that the loop will be back within d.
func (l *Loop) Within(d time.Duration) {
	if l != nil {
		l.due.Store(max(1, int64(time.Since(l.began)+d)))
	}
}

// Rest withdraws the promise until the next one: the loop waits for others or has ended.
func (l *Loop) Rest() {
	if l != nil {
		l.due.Store(0)
	}
}

// Stuck returns the names of the loops that are overdue at a time, sorted.
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

// Of returns the loop in ctx, or nil.
func Of(ctx context.Context) *Loop {
	l, _ := ctx.Value(key{}).(*Loop)
	return l
}
