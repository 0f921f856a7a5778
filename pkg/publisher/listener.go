package publisher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/notified"
)

// listener wakes a relay when an event is appended or its tables change. It merges notifications that come
// together.
type listener struct {
	wake    chan struct{} // an event was appended
	changed chan struct{} // pairs became free, or an operator acted

	pool      *pgxpool.Pool
	logger    *slog.Logger
	listening atomic.Bool
}

// newListener returns a listener that connects with the pool's settings.
func newListener(pool *pgxpool.Pool, logger *slog.Logger) *listener {
	return &listener{wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), pool: pool, logger: logger}
}

// hears reports whether the next append will be heard.
func (l *listener) hears() bool { return l.listening.Load() }

// run listens on its own connection until ctx is cancelled. If it cannot connect or LISTEN does not
// work (PgBouncer in transaction mode), the relay only polls.
func (l *listener) run(ctx context.Context) {
	notified.Listen(ctx, l.pool, func(err error, wait time.Duration) {
		l.logger.WarnContext(ctx, "not listening, polling only", "error", err, "wait", wait)
	}, l.hear, lease.Channel, ledger.Channel)
}

func (l *listener) hear(ctx context.Context, conn *pgx.Conn, works func()) error {
	works()
	l.listening.Store(true)
	defer l.listening.Store(false)
	loops.Signal(l.wake) // earlier appends did not notify
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == ledger.Channel {
			loops.Signal(l.changed)
			continue
		}
		loops.Signal(l.wake)
		if err := lease.Awake(ctx, conn, n.Payload); err != nil {
			return err
		}
	}
}
