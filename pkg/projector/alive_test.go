package projector

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestStuck(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	held := make(chan struct{})
	var once sync.Once
	p, err := New(Config{
		Pool: pool, Concurrency: 2, PollInterval: 100 * time.Millisecond,
		Projections: []projection.Projection{projection.Document[int]{
			Name: "counted", Version: 1,
			Fold: func(n *int, _ event.Event) error { *n++; return nil },
		}},
		OnStep: func(s kind.Step) {
			if s == kind.StepRead {
				once.Do(func() { <-held })
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.base.Promises.Step = 200 * time.Millisecond
	if stuck := p.Stuck(); stuck != nil {
		t.Errorf("before it runs these are stuck: %v", stuck)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for _, campaign := range []string{"a", "b"} {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, event.Event{Type: "noted"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, met func(stuck []string) bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !met(p.Stuck()); loops.Sleep(ctx, 10*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: these are stuck: %v", what, p.Stuck())
			}
		}
	}
	until("while a worker stands still", func(stuck []string) bool {
		return slices.Equal(stuck, []string{"apply 1"}) || slices.Equal(stuck, []string{"apply 2"})
	})
	close(held)
	until("once it goes on", func(stuck []string) bool { return stuck == nil })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if stuck := p.base.Pulse.Stuck(time.Now().Add(24 * time.Hour)); stuck != nil {
		t.Errorf("after it has returned these are stuck: %v", stuck)
	}
}
