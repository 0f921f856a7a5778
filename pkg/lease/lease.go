// Package lease lists workers and drains them.
//
// A campaign belongs to one worker at a time, under a lease that expires by the database's clock.
// Workers claim, renew and fence leases by themselves; a program that runs a projector needs no
// call of this package. It reads tidemark.leases and tidemark.workers, and writes only the drained
// flag of a worker. All functions are safe for concurrent use.
package lease

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Worker is a worker's record, updated about once a second: Owner, ConsumerGroup, Host, PID,
// StartedAt, SeenAt, CampaignsHeld, EventsApplied, DrainedBy, and in Knows the versions of the
// projections it has code for. A worker not seen for a few seconds is gone or cut off.
type Worker = lease.Worker

// Workers lists the workers of all groups that have a record, oldest first.
func Workers(ctx context.Context, db *pgxpool.Pool) ([]Worker, error) { return lease.Workers(ctx, db) }

// Drain tells a worker to finish its campaigns and claim no more, until [Undrain] or its end. It
// notices within about a second. by names the operator and must not be empty. Drain returns false
// if there is no such worker.
func Drain(ctx context.Context, db *pgxpool.Pool, owner, by string) (bool, error) {
	return lease.Drain(ctx, db, owner, by)
}

// Undrain lets a drained worker claim again. It returns false if there is no such worker.
func Undrain(ctx context.Context, db *pgxpool.Pool, owner string) (bool, error) {
	return lease.Undrain(ctx, db, owner)
}
