package projector

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/await"
)

// Waiter waits until projections have applied events ([Waiter.Wait]). Make one for each pool, and run it
// beside what uses it ([Waiter.Run]). It has one connection, however many wait. It is safe for
// concurrent use.
type Waiter = await.Waiter

// NewWaiter returns a waiter for the database of the pool. A nil logger discards.
func NewWaiter(pool *pgxpool.Pool, logger *slog.Logger) *Waiter { return await.New(pool, logger) }

// NotAppliedError says why a projection will not apply an event soon.
type NotAppliedError = await.NotAppliedError

// The values of [NotAppliedError].Status.
const (
	WaitFailed       = await.Failed       // the projection failed at an event, and will try again
	WaitDead         = await.Dead         // the projection failed at an event, and waits for an operator
	WaitPaused       = await.Paused       // the projection, its group or the campaign is paused
	WaitUnregistered = await.Unregistered // there is no projection of that name
	WaitReplaced     = await.Replaced     // the append was rolled back or lost, and another event may have its seq
)

// ErrWaiterStopped is returned by [Waiter.Wait] once [Waiter.Run] has ended.
var ErrWaiterStopped = await.ErrStopped
