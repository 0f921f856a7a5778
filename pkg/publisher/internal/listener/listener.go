// Package listener wakes a relay when an event is appended or its tables change.
package listener

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

// Listener receives notifications and merges those that come together.
type Listener struct {
	Wake    chan struct{} // an event was appended
	Changed chan struct{} // pairs became free, or an operator acted

	pool      *pgxpool.Pool
	logger    *slog.Logger
	listening atomic.Bool
}

// New returns a listener that connects with the pool's settings.
func New(pool *pgxpool.Pool, logger *slog.Logger) *Listener {
	return &Listener{Wake: make(chan struct{}, 1), Changed: make(chan struct{}, 1), pool: pool, logger: logger}
}

// Listening reports whether the next append will be heard.
func (l *Listener) Listening() bool { return l.listening.Load() }

// Run listens on its own connection until ctx is cancelled. If it cannot connect or LISTEN does not
// work (PgBouncer in transaction mode), the relay only polls.
func (l *Listener) Run(ctx context.Context) {
	notified.Listen(ctx, l.pool, func(err error, wait time.Duration) {
		l.logger.WarnContext(ctx, "not listening, polling only", "error", err, "wait", wait)
	}, l.hear, lease.Channel, ledger.Channel)
}

func (l *Listener) hear(ctx context.Context, conn *pgx.Conn, works func()) error {
	works()
	l.listening.Store(true)
	defer l.listening.Store(false)
	loops.Signal(l.Wake) // earlier appends did not notify
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == ledger.Channel {
			loops.Signal(l.Changed)
			continue
		}
		loops.Signal(l.Wake)
		if err := lease.Awake(ctx, conn, n.Payload); err != nil {
			return err
		}
	}
}
