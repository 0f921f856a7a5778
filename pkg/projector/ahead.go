package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// assignment is what a worker is to bring forward.
type assignment struct {
	units  []*unit
	opened *transaction // has read the first group of them; nil: none has
}

// take answers the transaction that has read, once.
func (a *assignment) take() *transaction {
	t := a.opened
	a.opened = nil
	return t
}

// drop ends the transaction that nobody took.
func (a *assignment) drop(ctx context.Context) {
	if t := a.take(); t != nil {
		t.abort(ctx)
	}
}

// claimAhead is a claim of about one group that opens the group's transaction and reads its events as well, in one round trip: the way from an append to its effect is a third shorter. It is for
// a worker that has been woken and has nothing else to do; to find nothing costs more this way. The claim is a transaction of its own: should the process die
// of what it has claimed, the leases say so.
func (c *claimer) claimAhead(ctx context.Context, most int, ask time.Duration) (claimed lease.Claimed, a assignment, err error) {
	conn, err := c.cfg.Pool.Acquire(ctx)
	if err != nil {
		return lease.Claimed{}, assignment{}, fmt.Errorf("acquire a connection: %w", err)
	}
	t := c.applier.on(conn, nil, c.pace.limit.events(), c.calls())
	t.claimed = true
	t.queue(queryBegin)
	c.keeper.ClaimAhead(t.batch, c.cursor, most, ask, func(got lease.Claimed) {
		claimed = got
		for _, l := range got.Leases {
			a.units = append(a.units, live(l))
		}
		t.units = a.units
	})
	t.queue(queryCommitBegin)
	t.queueSettings()
	err = t.read(ctx, c.pace.limit.events())
	if err == nil && len(a.units) > 0 && !claimed.Suspicious() {
		a.opened = t
		return claimed, a, nil
	}
	t.abort(ctx)
	if len(a.units) == 0 {
		return claimed, a, err
	}
	// What is wrong with the read the worker finds out that reads again.
	if err := c.keeper.Suspects(ctx, c.cfg.Pool, claimed); err != nil {
		c.holder.giveBackLeases(ctx, claimed.Leases)
		return lease.Claimed{}, assignment{}, err
	}
	for i, l := range claimed.Leases {
		a.units[i] = live(l)
	}
	return claimed, a, nil
}
