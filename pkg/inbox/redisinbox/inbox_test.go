package redisinbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/inbox/redisinbox"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/redistest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t *testing.T, cfg redisinbox.Config) (*redisinbox.Inbox, *redis.Client) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	cfg.Client = client
	in, err := redisinbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in, client
}

func TestAnEventIsNewOnceForEachConsumerUntilItIsUnmarked(t *testing.T) {
	t.Parallel()
	in, client := open(t, redisinbox.Config{})
	id := uuid.New()
	first := func(consumer string) bool {
		first, err := in.CheckAndMark(t.Context(), consumer, "oak", id)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	if !first("a") || first("a") || !first("b") {
		t.Error("it is not new once for each")
	}
	if ttl := client.TTL(t.Context(), "evt:processed:a:"+id.String()+"/oak").Val(); ttl > inbox.DefaultTTL ||
		ttl < inbox.DefaultTTL-time.Hour {
		t.Errorf("the mark lasts %s", ttl)
	}
	if err := in.Unmark(t.Context(), "a", "oak", id); err != nil {
		t.Fatal(err)
	}
	if !first("a") || first("b") {
		t.Error("unmarked, it is not new, or new for another")
	}
}

func TestDoHandlesOnce(t *testing.T) {
	t.Parallel()
	in, client := open(t, redisinbox.Config{})
	id, errNo := uuid.New(), errors.New("no")
	key := "evt:processed:a:" + id.String() + "/oak"
	var calls atomic.Int64
	do := func(ctx context.Context, fails error) (bool, error) {
		return in.Do(ctx, "a", "oak", id, func(context.Context) error {
			calls.Add(1)
			if value := client.Get(t.Context(), key).Val(); value == "" || value == "done" {
				t.Errorf("while it is handled the mark is %q", value)
			}
			return fails
		})
	}
	if handled, err := do(t.Context(), errNo); !handled || !errors.Is(err, errNo) ||
		client.Exists(t.Context(), key).Val() != 0 {
		t.Errorf("a handler that fails: %t, %v", handled, err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = in.Do(t.Context(), "a", "oak", id, func(context.Context) error { panic("no") })
	}()
	if client.Exists(t.Context(), key).Val() != 0 {
		t.Error("a handler that panics leaves its mark")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := in.Do(ctx, "a", "oak", id, func(context.Context) error { cancel(); return errNo }); !errors.Is(err,
		errNo) || client.Exists(t.Context(), key).Val() != 0 {
		t.Errorf("a handler whose context ends: %v, or it leaves its mark", err)
	}
	if handled, err := do(t.Context(), nil); !handled || err != nil {
		t.Errorf("at last: %t, %v", handled, err)
	}
	if handled, err := do(t.Context(), nil); handled || err != nil || calls.Load() != 2 {
		t.Errorf("again: %t, %v, after %d calls", handled, err, calls.Load())
	}
	if ttl := client.TTL(t.Context(), key).Val(); ttl < inbox.DefaultTTL-time.Hour {
		t.Errorf("the mark lasts %s", ttl)
	}
}

func TestOfDeliveriesAtOnceOneIsHandled(t *testing.T) {
	t.Parallel()
	in, _ := open(t, redisinbox.Config{})
	id, others := uuid.New(), make(chan struct{})
	var calls, waiting atomic.Int64
	var deliveries sync.WaitGroup
	for range 8 {
		deliveries.Go(func() {
			handled, err := in.Do(t.Context(), "a", "oak", id, func(context.Context) error {
				calls.Add(1)
				<-others // until all others have been refused
				return nil
			})
			if handled != (err == nil) || err != nil && !errors.Is(err, redisinbox.ErrInProgress) {
				t.Errorf("handled is %t, %v", handled, err)
			}
			if err != nil && waiting.Add(1) == 7 {
				close(others)
			}
		})
	}
	deliveries.Wait()
	if calls.Load() != 1 {
		t.Errorf("it was handled %d times", calls.Load())
	}
}

func TestATurnThatHasExpiredIsNotTakenFromTheNext(t *testing.T) {
	t.Parallel()
	in, client := open(t, redisinbox.Config{})
	id := uuid.New()
	key := "evt:processed:a:" + id.String() + "/oak"
	for _, fails := range []error{nil, errors.New("no")} {
		_, _ = in.Do(t.Context(), "a", "oak", id, func(context.Context) error {
			client.Set(t.Context(), key, "another's", time.Minute) // as if this lease had expired
			return fails
		})
		if got := client.Get(t.Context(), key).Val(); got != "another's" {
			t.Errorf("handled with %v: the other's mark became %q", fails, got)
		}
		client.Del(t.Context(), key)
	}
}

func TestATurnIsShortSoThatACrashLosesNothing(t *testing.T) {
	t.Parallel()
	in, client := open(t, redisinbox.Config{Turn: time.Minute})
	id := uuid.New()
	_, err := in.Do(t.Context(), "a", "oak", id, func(context.Context) error {
		if ttl := client.PTTL(t.Context(), "evt:processed:a:"+id.String()+"/oak").Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the turn lasts %s", ttl)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBadSettingsAndNamesAreRefused(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = client.Close() }()
	for _, cfg := range []redisinbox.Config{
		{},
		{Client: client, TTL: -1},
		{Client: client, TTL: time.Hour, Turn: 2 * time.Hour},
	} {
		if _, err := redisinbox.New(cfg); err == nil {
			t.Errorf("%v: no error", cfg)
		}
	}
	in, err := redisinbox.New(redisinbox.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.CheckAndMark(t.Context(), "", "oak", uuid.New()); err == nil ||
		!strings.Contains(err.Error(), "has no name") {
		t.Errorf("got %v", err)
	}
	if _, err := in.Do(t.Context(), "a", "oak", uuid.Nil, nil); err == nil || !strings.Contains(err.Error(), "has no id") {
		t.Errorf("got %v", err)
	}
}

func TestAMarkLastsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	in, client := open(t, redisinbox.Config{TTL: time.Hour})
	marked, done := uuid.New(), uuid.New()
	if first, err := in.CheckAndMark(t.Context(), "a", "oak", marked); err != nil || !first {
		t.Errorf("first is %t, %v", first, err)
	}
	if handled, err := in.Do(t.Context(), "a", "oak", done, func(context.Context) error { return nil }); err != nil ||
		!handled {
		t.Errorf("handled is %t, %v", handled, err)
	}
	for _, id := range []uuid.UUID{marked, done} {
		if ttl := client.TTL(t.Context(), "evt:processed:a:"+id.String()+"/oak").Val(); ttl > time.Hour || ttl < time.Minute {
			t.Errorf("it lasts %s", ttl)
		}
	}
}
