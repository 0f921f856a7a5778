// Package lease lists workers and drains them.
//
// A campaign belongs to one worker at a time, under a lease that expires by the database's clock.
// Workers claim, renew and fence leases by themselves; a program that runs a projector needs no
// call of this package. It reads tidemark.leases and tidemark.workers, and writes only the drained
// flag of a worker. All functions are safe for concurrent use.
//
// Stability: as of version 1, no function changes its meaning, and structs may get fields.
package lease

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// Worker is a worker's record, updated about once a second.
type Worker struct {
	Owner         string
	ConsumerGroup string
	Host          string
	PID           int
	StartedAt     time.Time
	SeenAt        time.Time // a worker not seen for a few seconds has stopped or is cut off
	CampaignsHeld int
	EventsApplied int64            // since it started
	DrainedBy     string           // the operator who drained it; empty: not drained
	Knows         map[string][]int // versions of projections that its program has, by name
}

// Workers lists the workers of all groups that have a record, oldest first.
func Workers(ctx context.Context, db *pgxpool.Pool) ([]Worker, error) {
	found, err := lease.Workers(ctx, db)
	workers := make([]Worker, len(found))
	for i := range found {
		workers[i] = Worker(found[i])
	}
	return workers, err
}

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
