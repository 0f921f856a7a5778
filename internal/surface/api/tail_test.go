package api

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestNotificationsDoNotKeepErasedEventsInMemory: any login may notify, and as often as it likes.
func TestNotificationsDoNotKeepErasedEventsInMemory(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tail := newTail(pool, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	ended := make(chan struct{}, 2)
	go func() { tail.loop.Run(ctx); ended <- struct{}{} }()
	go func() {
		for ctx.Err() == nil {
			_, _ = pool.Exec(ctx, `SELECT pg_notify('tidemark_work', 'forged')`)
		}
		ended <- struct{}{}
	}()
	defer tail.join()()
	within := func(what string, holds func(cached bool, history int) bool) {
		t.Helper()
		for {
			var histories int
			err := pool.QueryRow(ctx, `SELECT count(*) FROM tidemark.histories
				WHERE noted_at > now() - interval '5 s'`).Scan(&histories)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			tail.mu.Lock()
			cached := tail.cache.At(0) != nil
			tail.mu.Unlock()
			if holds(cached, histories) {
				return
			}
		}
	}
	within("the tail has begun", func(bool, int) bool { head, _, _ := tail.now(); return head >= 0 })
	if _, err := pool.Exec(ctx, `SELECT tidemark.append('oak', '[{"type": "x"}]')`); err != nil {
		t.Fatal(err)
	}
	within("the event is kept", func(cached bool, _ int) bool { return cached })
	if _, err := pool.Exec(ctx, `SELECT nextval('tidemark.erased')`); err != nil {
		t.Fatal(err)
	}
	within("the event is dropped", func(cached bool, _ int) bool { return !cached })
	within("the history is noted", func(_ bool, histories int) bool { return histories > 0 })
	stop()
	<-ended
	<-ended
}
