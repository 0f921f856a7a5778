package delivery

import (
	"context"
	"sync"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Gate lets calls in until it closes. The zero value is open.
type Gate struct {
	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// Enter lets a call in, which ends with [Gate.Leave]. It refuses with ctx's error, or with
// [publisher.ErrClosed] as soon as Close has begun.
func (g *Gate) Enter(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return publisher.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Close lets no more calls in and waits for those inside. It tells whether it is the first Close.
func (g *Gate) Close() (first bool) {
	g.mu.Lock()
	first, g.closed = !g.closed, true
	g.mu.Unlock()
	g.calls.Wait()
	return first
}
