package publisher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/publisher/internal/ledger"
)

// listener wakes the loop.
type listener struct {
	*base
	wake      chan struct{} // an event was appended
	nudge     chan struct{} // pairs are free, or an operator has acted
	listening atomic.Bool
}

func newListener(b *base) *listener {
	return &listener{base: b, wake: make(chan struct{}, 1), nudge: make(chan struct{}, 1)}
}

// listen wakes the loop when somebody appends or acts. It has a connection of its own. Where that is not to be had, or LISTEN does not work (PgBouncer in transaction
// mode), all goes on by polling.
func (l *listener) listen(ctx context.Context) {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err := l.listenOnce(ctx, func() { attempt = 1 })
		if ctx.Err() != nil {
			return
		}
		wait := backoff(attempt, 5*time.Second, 0.5)
		l.cfg.Logger.WarnContext(ctx, "not listening, polling only", "error", err, "wait", wait)
		pause(ctx, wait)
	}
}

func (l *listener) listenOnce(ctx context.Context, connected func()) error {
	conn, err := pgx.ConnectConfig(ctx, l.cfg.Pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bounded)
	}()
	for _, name := range []string{lease.Channel, ledger.Channel} {
		if _, err := conn.Exec(ctx, "LISTEN "+name); err != nil {
			return err
		}
	}
	connected()
	l.listening.Store(true)
	defer l.listening.Store(false)
	signal(l.wake) // what was appended before is not notified
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == ledger.Channel {
			signal(l.nudge)
			continue
		}
		signal(l.wake)
		if err := lease.Awake(ctx, conn, n.Payload); err != nil {
			return err
		}
	}
}
