package projector

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// listen wakes the dispatcher when an append notifies. It has a connection of its own. Where that is not to be had, or LISTEN does not
// work (PgBouncer in transaction mode), all goes on by polling.
func (p *Projector) listen(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := p.listenOnce(ctx, func() { attempt = 0 })
		if ctx.Err() != nil {
			return
		}
		wait := p.backoff(attempt)
		p.cfg.Logger.WarnContext(ctx, "not listening, polling only", "error", err, "wait", wait)
		pause(ctx, wait)
	}
}

func (p *Projector) listenOnce(ctx context.Context, connected func()) error {
	conn, err := pgx.ConnectConfig(ctx, p.cfg.Pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bounded)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+lease.Channel); err != nil {
		return err
	}
	connected()
	p.listening.Store(true)
	defer p.listening.Store(false)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		signal(p.wake)
		if err := lease.Awake(ctx, conn, n.Payload); err != nil {
			return err
		}
	}
}
