package notified_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/notified"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// looped runs a loop until the test ends. Each step sends its connection's process and takes what to
// return.
type looped struct {
	*notified.Loop
	pool  *pgxpool.Pool
	steps chan uint32
	then  chan result
}

type result struct {
	within time.Duration
	err    error
}

func loop(t *testing.T) *looped {
	t.Helper()
	l := &looped{pool: pgtest.New(t), steps: make(chan uint32), then: make(chan result)}
	l.Loop = &notified.Loop{Pool: l.pool, Logger: slog.New(slog.DiscardHandler), Channel: "news"}
	l.Step = func(ctx context.Context, conn *pgx.Conn, _ string) (time.Duration, error) {
		select {
		case l.steps <- conn.PgConn().PID():
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		select {
		case then := <-l.then:
			_, err := conn.Exec(ctx, "SELECT 1") // as every step does; it also receives notifications
			return then.within, errors.Join(then.err, err)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		l.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return l
}

// stepped waits for a step, and lets it return.
func (l *looped) stepped(t *testing.T, then result) (pid uint32) {
	t.Helper()
	select {
	case pid = <-l.steps:
	case <-time.After(time.Minute):
		t.Fatal("there is no step")
	}
	l.then <- then
	return pid
}

// rests fails the test if there is another step.
func (l *looped) rests(t *testing.T) {
	t.Helper()
	select {
	case <-l.steps:
		t.Fatal("there is a step that nothing asked for")
	case <-time.After(100 * time.Millisecond):
	}
}

func (l *looped) notify(t *testing.T, times int) {
	t.Helper()
	if _, err := l.pool.Exec(t.Context(), "SELECT pg_notify('news', n::text) FROM generate_series(1, $1) n", times); err != nil {
		t.Fatal(err)
	}
}

func TestAStepFollowsANotificationAPokeAndItsOwnTime(t *testing.T) {
	t.Parallel()
	l := loop(t)
	l.stepped(t, result{}) // the first one, without a reason
	l.rests(t)
	l.notify(t, 1)
	l.stepped(t, result{})
	l.rests(t)
	l.Poke()
	l.stepped(t, result{within: time.Millisecond})
	l.stepped(t, result{})
	l.rests(t)
}

func TestNotificationsThatComeTogetherMakeFewSteps(t *testing.T) {
	t.Parallel()
	l := loop(t)
	<-l.steps
	l.notify(t, 1000) // during a step
	l.then <- result{}
	<-l.steps
	l.then <- result{}
	for steps := 1; ; steps++ {
		select {
		case <-l.steps:
			l.then <- result{}
		case <-time.After(100 * time.Millisecond):
			if steps > 5 {
				t.Errorf("1,000 notifications at once make %d steps", steps)
			}
			return
		}
	}
}

func TestAPokeDuringAStepIsNotLost(t *testing.T) {
	t.Parallel()
	l := loop(t)
	<-l.steps
	l.Poke()
	l.then <- result{}
	l.stepped(t, result{})
	l.rests(t)
}

func TestALostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	l := loop(t)
	first := l.stepped(t, result{})
	if _, err := l.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", int(first)); err != nil {
		t.Fatal(err)
	}
	second := l.stepped(t, result{err: errors.New("a statement failed")})
	third := l.stepped(t, result{})
	if first == second || second == third {
		t.Errorf("the steps ran on the connections %d, %d and %d", first, second, third)
	}
	l.notify(t, 1)
	l.stepped(t, result{})
}
