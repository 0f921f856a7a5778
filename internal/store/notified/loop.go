// Package notified runs a step whenever a channel of Postgres is notified.
//
// A [Loop] has one connection of its own, for the notifications and for the step. It owns no table.
package notified

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/session"
)

// Loop calls Step after each notification, after [Loop.Poke], and when the time that Step returned is
// over. It leaves out calls for notifications that came during a step.
type Loop struct {
	Pool    *pgxpool.Pool // required; only its settings are used
	Logger  *slog.Logger  // required
	Channel string        // required
	// Step gets the payload of the last notification since the step before. It returns when to be called
	// at the latest; 0: when it is notified or poked.
	Step func(ctx context.Context, conn *pgx.Conn, payload string) (within time.Duration, err error)

	mu    sync.Mutex
	poked bool
	wake  context.CancelFunc // ends the wait for a notification
}

const (
	stepWithin  = 5 * time.Second // a step, and the connecting
	longestWait = 5 * time.Second // between attempts to connect, and up to a quarter more
	asleep      = 24 * time.Hour  // a wait without a limit of the step's
)

// Run connects, and calls Step until ctx ends. After an error it connects again, later and later. Where
// LISTEN does not work, only the time that Step returned and pokes call it.
func (l *Loop) Run(ctx context.Context) {
	Listen(ctx, l.Pool, func(err error, wait time.Duration) {
		l.Logger.WarnContext(ctx, "not listening to "+l.Channel, "error", err, "wait", wait)
	}, l.once, l.Channel)
}

// Listen connects as the pool does, listens to channels, and calls hear, which takes the notifications
// and calls works when all is well. A connection ends after the pool's MaxConnLifetime, and the next one
// follows at once. After an error Listen tells of it and connects again, later and later. It returns
// when ctx ends.
func Listen(
	ctx context.Context, pool *pgxpool.Pool, failed func(err error, wait time.Duration),
	hear func(ctx context.Context, conn *pgx.Conn, works func()) error, channels ...string,
) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		conn, err := connect(ctx, pool, channels)
		old := false
		if err == nil {
			living, cancel := context.WithTimeout(ctx, lifetime(pool))
			err = hear(living, conn, func() { attempt = 0 })
			old = living.Err() != nil
			cancel()
		}
		if conn != nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = conn.Close(bounded)
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
		if old {
			attempt = -1
			continue
		}
		wait := loops.Backoff(attempt+1, 50*time.Millisecond, longestWait)
		failed(err, wait)
		loops.Sleep(ctx, wait)
	}
}

// lifetime is how long a connection lives: as long as the pool's own.
func lifetime(pool *pgxpool.Pool) time.Duration {
	return cmp.Or(pool.Config().MaxConnLifetime, asleep)
}

// Poke makes Step run soon.
func (l *Loop) Poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poked = true; l.wake != nil {
		l.wake()
	}
}

func (l *Loop) once(ctx context.Context, conn *pgx.Conn, stepped func()) error {
	payload := ""
	for {
		began := time.Now()
		l.mu.Lock()
		l.poked = false
		l.mu.Unlock()
		within, err := l.step(ctx, conn, payload)
		if err != nil {
			return err
		}
		stepped()
		if within == 0 {
			within = asleep
		}
		took := time.Since(began)
		if payload, err = l.wait(ctx, conn, within); err != nil {
			return err
		}
		// At most half of the time is spent in steps, however often others notify. A poke is not delayed.
		resting, cancel := l.until(ctx, 2*took-time.Since(began))
		<-resting.Done()
		cancel()
	}
}

// connect listens. A poke must end a wait without a cancel request, which could meet the next statement.
func connect(ctx context.Context, pool *pgxpool.Pool, channels []string) (*pgx.Conn, error) {
	connecting, cancel := context.WithTimeout(ctx, session.Within(pool.Config().ConnConfig))
	defer cancel()
	conn, err := session.Alone(connecting, pool, func(cfg *pgx.ConnConfig) {
		session.Text(cfg)
		cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
		}
	})
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, stepWithin)
		defer cancel()
		_, err = conn.Exec(bounded, "LISTEN "+strings.Join(channels, "; LISTEN "), pgx.QueryExecModeSimpleProtocol)
	}
	return conn, err
}

func (l *Loop) step(ctx context.Context, conn *pgx.Conn, payload string) (time.Duration, error) {
	bounded, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return l.Step(bounded, conn, payload)
}

// wait waits for a notification or a poke, and takes all notifications that are there.
func (l *Loop) wait(ctx context.Context, conn *pgx.Conn, within time.Duration) (payload string, err error) {
	waiting, cancel := l.until(ctx, within)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(waiting)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil && (waiting.Err() == nil || conn.IsClosed()):
			return "", err
		case err != nil:
			return payload, nil
		}
		payload = n.Payload
		cancel() // from now on only those that have been received; the step receives the others
	}
}

// until returns a context that ends after d, or with a poke since the last step began.
func (l *Loop) until(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	waiting, cancel := context.WithTimeout(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wake = cancel; l.poked {
		cancel()
	}
	return waiting, cancel
}
