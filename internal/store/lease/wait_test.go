package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// listener collects the notifications between two of its own marks, so a test can see that none
// came without waiting.
type listener struct {
	conn *pgx.Conn
	pool *pgxpool.Pool
}

func listen(t *testing.T, pool *pgxpool.Pool) listener {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if _, err := conn.Exec(t.Context(), "LISTEN "+lease.Channel); err != nil {
		t.Fatal(err)
	}
	return listener{conn, pool}
}

// afterAppend appends an event and returns the payloads of its notifications.
func (l listener) afterAppend(t *testing.T) (payloads []string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), l.pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, event.Event{Type: "noted"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const mark = "mark"
	exec(t, l.pool, "SELECT pg_notify($1, $2)", lease.Channel, mark)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		n, err := l.conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == mark {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}

func wait(t *testing.T, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	if err := lease.Wait(t.Context(), pool, d); err != nil {
		t.Fatal(err)
	}
}

func awake(t *testing.T, pool *pgxpool.Pool, payload string) {
	t.Helper()
	if err := lease.Awake(t.Context(), pool, payload); err != nil {
		t.Fatal(err)
	}
}

func TestAppendsNotifyOnlyWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := listen(t, pool)
	if got := l.afterAppend(t); len(got) > 0 {
		t.Fatalf("nobody waits: got %q", got)
	}
	wait(t, pool, time.Hour)
	first := l.afterAppend(t)
	if len(first) != 1 {
		t.Fatalf("somebody waits: got %q", first)
	}
	awake(t, pool, first[0])
	if got := l.afterAppend(t); len(got) > 0 {
		t.Errorf("the wait has ended: got %q", got)
	}

	wait(t, pool, time.Hour)
	wait(t, pool, time.Hour) // another wait, announced before the first is notified
	awake(t, pool, first[0])
	awake(t, pool, "not a number")
	second := l.afterAppend(t)
	if len(second) != 1 || second[0] == first[0] {
		t.Errorf("a wait begun later must go on: got %q after %q", second, first)
	}
}

func TestAShorterWaitIsNotEndedByAnEarlierOne(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := listen(t, pool)
	wait(t, pool, time.Hour)
	first := l.afterAppend(t)
	wait(t, pool, time.Millisecond) // shorter, but the first wait's payload must not end it
	awake(t, pool, first[0])
	if got := l.afterAppend(t); len(got) != 1 || got[0] == first[0] {
		t.Errorf("got %q after %q", got, first)
	}
}

func TestAWaitEndsByItself(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := listen(t, pool)
	wait(t, pool, time.Millisecond)
	waitFor(t, pool, "the wait is over",
		"SELECT last_value < extract(epoch FROM clock_timestamp()) * 1000 FROM tidemark.waiting")
	if got := l.afterAppend(t); len(got) > 0 {
		t.Errorf("nobody waits any more: got %q", got)
	}
}
