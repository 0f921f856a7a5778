package memory_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestMemoryKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, publisher.Encoder{}, func(*testing.T) publishertest.Target {
		var down atomic.Bool
		var stalled atomic.Pointer[chan struct{}]
		s := &memory.Sink{
			Refuse: func(e publisher.Event) (error, bool) {
				if e.Type == "refused" {
					return errors.New("refused"), true
				}
				return nil, false
			},
			Down: func() error {
				if down.Load() {
					return memory.ErrDown
				}
				return nil
			},
			OnPublish: func(ctx context.Context, _ []publisher.Event) error {
				if c := stalled.Load(); c != nil {
					select {
					case <-*c:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			},
		}
		return publishertest.Target{
			Sink: s,
			Received: func(context.Context) (received []publishertest.Received, _ error) {
				for _, r := range s.Received() {
					received = append(received, publishertest.Received{EventID: r.ID, CampaignID: r.CampaignID})
				}
				return received, nil
			},
			Poison: func(e *publisher.Event) { e.Type = "refused" },
			Stop: func() func() {
				down.Store(true)
				return func() { down.Store(false) }
			},
			Stall: func() func() {
				c := make(chan struct{})
				stalled.Store(&c)
				return func() {
					stalled.Store(nil)
					close(c)
				}
			},
		}
	})
}
