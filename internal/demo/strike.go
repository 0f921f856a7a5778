package demo

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// casualty is a worker that was killed, until others have taken over all it held.
type casualty struct {
	worker *worker
	owner  string
	held   int
	at     time.Time
}

const (
	aimWithin = 3 * time.Second
	aimEvery  = 10 * time.Millisecond
	lookAfter = 20 * time.Millisecond // what a stopped worker has sent to the server is done by then
)

// strike kills a worker with SIGKILL, at a moment when it holds campaigns if there is one within
// [aimWithin], or a quarter of a short demo: it is to happen under load. It stops the worker,
// looks, and lets it go on if it holds nothing.
func (d *demo) strike(ctx context.Context) error {
	victim := d.fleet.workers[d.Workers/2]
	owner := d.meter.owner(victim)
	var held []string
	err := awaitEvery(ctx, aimEvery, min(aimWithin, d.Length/4), func() (bool, error) {
		if err := victim.signal(syscall.SIGSTOP); err != nil {
			return false, err
		}
		pause(ctx, lookAfter)
		var err error
		if held, err = (lease.Keeper{Group: group, Owner: owner}).Held(ctx, d.pool); err != nil || len(held) > 0 {
			return true, err
		}
		return false, victim.signal(syscall.SIGCONT)
	})
	if err != nil && !errors.Is(err, errTooLong) {
		return errors.Join(err, victim.kill()) // it may be stopped, and could not end otherwise
	}
	if err := victim.kill(); err != nil {
		return err
	}
	d.screen.say("killed worker %d (pid %d, SIGKILL) while it held %d campaigns", victim.number, victim.pid, len(held))
	if len(held) > 0 {
		d.casualty = &casualty{worker: victim, owner: owner, held: len(held), at: time.Now()}
	}
	return nil
}

// relief says when others have taken over what the killed worker held.
func (d *demo) relief(ctx context.Context) error {
	if d.casualty == nil {
		return nil
	}
	held, err := lease.Keeper{Group: group, Owner: d.casualty.owner}.Held(ctx, d.pool)
	if err != nil || len(held) > 0 {
		return err
	}
	d.screen.say("the others have taken over all %d campaigns that worker %d held, %.1f s after the kill (lease TTL %s)",
		d.casualty.held, d.casualty.worker.number, time.Since(d.casualty.at).Seconds(), d.LeaseTTL)
	d.casualty = nil
	return nil
}
