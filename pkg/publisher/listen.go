package publisher

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// listen wakes the loop when somebody appends or acts. It has a connection of its own. Where that is not to be had, or LISTEN does not work (PgBouncer in transaction
// mode), all goes on by polling.
func (r *Relay) listen(ctx context.Context) {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err := r.listenOnce(ctx, func() { attempt = 1 })
		if ctx.Err() != nil {
			return
		}
		wait := backoff(attempt, 5*time.Second, 0.5)
		r.cfg.Logger.WarnContext(ctx, "not listening, polling only", "error", err, "wait", wait)
		pause(ctx, wait)
	}
}

func (r *Relay) listenOnce(ctx context.Context, connected func()) error {
	conn, err := pgx.ConnectConfig(ctx, r.cfg.Pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bounded)
	}()
	for _, name := range []string{lease.Channel, channel} {
		if _, err := conn.Exec(ctx, "LISTEN "+name); err != nil {
			return err
		}
	}
	connected()
	r.listening.Store(true)
	defer r.listening.Store(false)
	signal(r.wake) // what was appended before is not notified
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == channel {
			signal(r.nudge)
			continue
		}
		signal(r.wake)
		if err := lease.Awake(ctx, conn, n.Payload); err != nil {
			return err
		}
	}
}
