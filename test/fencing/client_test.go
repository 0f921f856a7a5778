package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// client makes random calls, with leases that it holds and leases that it held before. It records
// the calls and their results.
type client struct {
	id      int
	pool    *pgxpool.Pool
	keeper  lease.Keeper
	random  *rand.Rand
	began   time.Time // start of the whole history
	careful bool      // releases everything it stops using, so nothing expires
	history []porcupine.Operation
	known   []lease.Lease // recent leases, held or not
}

func newClient(id int, pool *pgxpool.Pool, ttl time.Duration, began time.Time, careful bool) *client {
	return &client{
		id: id, pool: pool, keeper: lease.Keeper{Group: group, Owner: fmt.Sprintf("client-%d", id), TTL: ttl},
		random: rand.New(rand.NewPCG(uint64(id), 7)), began: began, careful: careful,
	}
}

func (c *client) run(ctx context.Context, rounds int) error {
	for range rounds {
		leases, err := c.claim(ctx)
		if err != nil {
			return err
		}
		for _, l := range leases {
			for c.random.IntN(3) > 0 {
				if err := c.advance(ctx, &l, c.random.IntN(2) == 0); err != nil {
					return err
				}
			}
			c.known = append(c.known, l)
			if c.careful || c.random.IntN(2) == 0 {
				if err := c.release(ctx, l); err != nil {
					return err
				}
			}
		}
		if err := c.misbehave(ctx); err != nil {
			return err
		}
	}
	return nil
}

// misbehave uses old leases, like a worker that was stopped for longer than its leases lived.
func (c *client) misbehave(ctx context.Context) error {
	if len(c.known) == 0 {
		return nil
	}
	old := &c.known[c.random.IntN(len(c.known))]
	switch c.random.IntN(5) {
	case 0:
		return c.renew(ctx, *old)
	case 1:
		wrong := *old
		wrong.Checkpoint--
		return c.advance(ctx, &wrong, true)
	case 2: // as if a server crash forgot the claim and another worker claimed again
		others := *old
		others.Generation += 1 + c.random.Int64N(3)
		return c.advance(ctx, &others, true)
	default:
		return c.advance(ctx, old, c.careful || c.random.IntN(2) == 0)
	}
}

// record records a call that began at the given time and has just returned.
func (c *client) record(began time.Duration, op operation, out answer) {
	op.owner = c.keeper.Owner
	c.history = append(c.history, porcupine.Operation{
		ClientId: c.id, Input: op, Call: began.Nanoseconds(), Output: out,
		Return: time.Since(c.began).Nanoseconds(),
	})
}

func (c *client) claim(ctx context.Context) ([]lease.Lease, error) {
	began := time.Since(c.began)
	claimed, err := c.keeper.Claim(ctx, c.pool, "", 1+c.random.IntN(len(campaigns)), 0)
	if err != nil {
		return nil, err
	}
	for _, l := range claimed.Leases {
		c.record(began, operation{kind: "claim", campaign: l.CampaignID},
			answer{ok: true, generation: l.Generation, checkpoint: l.Checkpoint})
	}
	return claimed.Leases, nil
}

func (c *client) advance(ctx context.Context, l *lease.Lease, release bool) error {
	step := lease.Step{
		CampaignID: l.CampaignID, Generation: l.Generation, From: l.Checkpoint,
		To: l.Checkpoint + 1 + c.random.Int64N(3), Release: release,
	}
	began := time.Since(c.began)
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		c.keeper.Advance(batch, []lease.Step{step})
		return lease.Error(tx.SendBatch(ctx, batch).Close())
	})
	if err != nil && !errors.Is(err, lease.ErrLost) {
		return err
	}
	c.record(began, operation{
		kind: "advance", campaign: l.CampaignID, generation: l.Generation, from: step.From,
		to: step.To, release: release,
	}, answer{ok: err == nil})
	if err == nil {
		l.Checkpoint = step.To
	}
	return nil
}

func (c *client) renew(ctx context.Context, l lease.Lease) error {
	began := time.Since(c.began)
	kept, err := c.keeper.Renew(ctx, c.pool, []lease.Lease{l})
	if err != nil {
		return err
	}
	c.record(began, operation{kind: "renew", campaign: l.CampaignID, generation: l.Generation}, answer{ok: len(kept) > 0})
	return nil
}

func (c *client) release(ctx context.Context, l lease.Lease) error {
	began := time.Since(c.began)
	if err := c.keeper.Release(ctx, c.pool, []lease.Lease{l}); err != nil {
		return err
	}
	c.record(began, operation{kind: "release", campaign: l.CampaignID, generation: l.Generation}, answer{ok: true})
	return nil
}
