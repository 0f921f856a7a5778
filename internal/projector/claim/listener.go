package claim

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/notified"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

// Listener hears notifications of appends and operators.
type Listener struct {
	*registry.Base
	Wake      chan struct{} // there may be work
	Also      func()        // called at each notification; nil: nothing
	due       chan struct{} // an append is due before the scheduler wakes by itself
	woken     chan string   // the wait that a notification named
	asked     atomic.Int64  // when the wait in force was requested, by this clock in nanoseconds
	listening atomic.Bool   // notifications arrive
}

// NewListener returns a listener that does not listen yet.
func NewListener(b *registry.Base) *Listener {
	return &Listener{Base: b, Wake: make(chan struct{}, 1), due: make(chan struct{}, 1), woken: make(chan string, 1)}
}

// Listening reports whether notifications arrive.
func (w *Listener) Listening() bool { return w.listening.Load() }

// Due receives when an append is due before the end of the scheduler's sleep.
func (w *Listener) Due() <-chan struct{} { return w.due }

// Listen wakes the claimer when an append notifies. It has a connection of its own. Without one, or
// if LISTEN does not work (PgBouncer in transaction mode), workers only poll.
func (w *Listener) Listen(ctx context.Context) {
	notified.Listen(ctx, w.Cfg.Pool, func(err error, wait time.Duration) {
		w.Cfg.Logger.WarnContext(ctx, "not listening, polling only", "error", err, "wait", wait)
	}, w.hear, lease.Channel, scheduled.Channel)
}

func (w *Listener) hear(ctx context.Context, conn *pgx.Conn, works func()) error {
	works()
	w.listening.Store(true)
	w.Metrics.Worker.Listening.Set(1)
	loops.Signal(w.due) // the scheduler sleeps without having asked for notifications
	defer func() {
		w.listening.Store(false)
		w.Metrics.Worker.Listening.Set(0)
	}()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == scheduled.Channel {
			loops.Signal(w.due)
			continue
		}
		loops.Signal(w.Wake)
		if w.Also != nil {
			w.Also()
		}
		select {
		case w.woken <- n.Payload:
		default: // the same wait, or the next one that an append is about to end
		}
	}
}

// awakeAfter is how long a wait goes on after a notification has named it, unless another replaces it.
const awakeAfter = 20 * time.Millisecond

// EndWaits ends the waits that notifications have named, so that appends stop notifying under load.
// It first lets awakeAfter pass: an idle worker asks again soon after it is woken, and ending its
// earlier wait at that moment could end the new one.
func (w *Listener) EndWaits(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-w.woken:
			named := time.Now().UnixNano()
			if !loops.Sleep(ctx, awakeAfter) {
				return
			}
			if w.asked.Load() > named {
				continue // another wait has replaced it
			}
			bounded, cancel := w.Bounded(ctx)
			if err := lease.Awake(bounded, w.Cfg.Pool, payload); err != nil && ctx.Err() == nil {
				w.Cfg.Logger.WarnContext(ctx, "wait not withdrawn, appends keep notifying", "error", err)
			}
			cancel()
		}
	}
}
