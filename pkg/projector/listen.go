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
	p.metrics.listening.Set(1)
	defer func() {
		p.listening.Store(false)
		p.metrics.listening.Set(0)
	}()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		signal(p.wake)
		select {
		case p.woken <- n.Payload:
		default: // it is the same wait, or the next one, that somebody is about to end
		}
	}
}

// awakeAfter is how long a wait that has been ended by a notification goes on unless another takes its place.
const awakeAfter = 20 * time.Millisecond

// endWaits ends the waits that notifications have named, so that under load appends stop notifying. A worker that is idle asks anew as soon as it is
// woken, or soon after; to end its earlier wait at the same moment could end the new one.
func (p *Projector) endWaits(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-p.woken:
			named := time.Now().UnixNano()
			if !pause(ctx, awakeAfter) {
				return
			}
			if p.asked.Load() > named {
				continue // another wait has taken its place
			}
			bounded, cancel := p.bounded(ctx)
			if err := lease.Awake(bounded, p.cfg.Pool, payload); err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "wait not ended, appends go on notifying", "error", err)
			}
			cancel()
		}
	}
}
