package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/test/support/heavy"
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

// TestAnEventThatTakesLongToReadStopsNoStream has an event that no session can read in time.
func TestAnEventThatTakesLongToReadStopsNoStream(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := &API{cfg: Config{Pool: pool}, tail: newTail(pool, slog.New(slog.DiscardHandler))}
	defer a.tail.join()()
	step := func() {
		t.Helper()
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		_, _ = a.tail.step(t.Context(), conn.Conn(), "")
	}
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('ash', '[{"type": "light"}]')`); err != nil {
		t.Fatal(err)
	}
	heavy.Block(t, pool, "oak", 2) // before the tail begins: the journal is another one afterwards
	heavy.Limit(t, pool, time.Second)
	if step(); a.tail.head < 1 {
		t.Fatal("the tail has not begun")
	}
	before := a.tail.head
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('oak', jsonb_build_array(jsonb_build_object('type', 'light'),
		jsonb_build_object('type', 'heavy'), jsonb_build_object('type', 'light')))`); err != nil {
		t.Fatal(err)
	}
	var last int64
	if err := pool.QueryRow(t.Context(), `SELECT max(position) FROM tidemark.journal`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		step()
	}
	if a.tail.head != last {
		t.Fatalf("the tail has read up to %d, want %d", a.tail.head, last)
	}
	head, instance, _ := a.tail.now()
	if page, news := a.tail.after(instance, last-2); page != nil || news != nil {
		t.Error("a stream before the event does not read it for itself")
	}
	if page, _ := a.tail.after(instance, last-1); page == nil || len(page.Events) != 1 {
		t.Error("a stream behind the event does not get the next one")
	}
	for query, sent := range map[string]int{"?type=light": 2, "?type=light&type=heavy": 1} {
		s, err := a.stream(httptest.NewRequestWithContext(t.Context(), "GET", "/"+query, nil), "/events/stream",
			slices.DeleteFunc(param.Of(reflect.TypeFor[streamed]()), func(p param.Param) bool { return p.Name == "campaign" }))
		var b bytes.Buffer
		if err == nil {
			s.place.Position = before
			err = s.enter(&b)
		}
		for err == nil && !s.joined {
			err = s.catchUp(&b, head)
		}
		if n := strings.Count(b.String(), "data: "); n != sent {
			t.Errorf("%s: %d events are sent, want %d", query, n, sent)
		}
		if named := err != nil && strings.Contains(err.Error(), "TIDEMARK_ADMIN_STATEMENT_TIMEOUT"); named != (sent == 1) {
			t.Errorf("%s: the error is %v", query, err)
		}
	}
}

// TestARolledBackAppendSendsNoStreamToTheDatabase: positions without events are in the tail too.
func TestARolledBackAppendSendsNoStreamToTheDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tail := newTail(pool, slog.New(slog.DiscardHandler))
	defer tail.join()()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	step := func() {
		t.Helper()
		if _, err := tail.step(t.Context(), conn.Conn(), ""); err != nil {
			t.Fatal(err)
		}
	}
	step()
	before, instance, _ := tail.now()
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT tidemark.append('oak', '[{"type": "x"}]'); ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	step()
	if head, _, _ := tail.now(); head <= before {
		t.Fatalf("the tail is at %d, and was at %d", head, before)
	}
	if page, _ := tail.after(instance, before); page == nil {
		t.Error("the tail does not have what follows: each stream reads it for itself")
	}
}
