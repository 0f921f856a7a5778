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

// Enter begins a call; [Gate.Leave] ends it. It fails with ctx's error, or [publisher.ErrClosed]
// after Close.
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

// Close refuses further calls and waits for current ones. It reports whether it is the first Close.
func (g *Gate) Close() (first bool) {
	g.mu.Lock()
	first, g.closed = !g.closed, true
	g.mu.Unlock()
	g.calls.Wait()
	return first
}
