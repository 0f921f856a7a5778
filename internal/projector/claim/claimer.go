package claim

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

const (
	// lookBehind is the shortest time between two looks for retries.
	lookBehind = 50 * time.Millisecond

	// drainedWait is how often a drained worker checks whether to go on.
	drainedWait = 500 * time.Millisecond
)

// Claimer claims campaigns that have work, and hands them to the crew.
type Claimer struct {
	*registry.Base
	Holder   *apply.Holder
	Applier  *apply.Applier
	Crew     *Crew
	Listener *Listener

	past         past
	lookedBehind time.Time
}

// Dispatch claims campaigns and hands them to the workers, one claim ahead of them.
func (c *Claimer) Dispatch(ctx context.Context, work chan<- apply.Assignment) {
	loop := loops.Of(ctx)
	defer loop.Rest()
	beat := rhythm{poll: c.Cfg.PollInterval, calm: true}
	for ctx.Err() == nil {
		if c.Holder.Drained.Load() {
			loop.Rest()
			loops.Sleep(ctx, drainedWait)
			continue
		}
		loop.Within(c.Promises.Around)
		how := c.next(ctx, &beat)
		n, next, err := c.claim(ctx, work, how)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			beat.failed()
			c.failed(ctx, err)
			continue
		}
		if beat.calm = next.around; how.ask > 0 {
			c.Listener.asked.Store(beat.announced.UnixNano())
		}
		if how.trial && n > 0 {
			loop.Rest() // the worker that has the campaign makes its own promise
			c.Applier.Breaker.Settle(ctx)
			continue
		}
		if how.trial {
			c.Applier.Breaker.Succeeded(ctx) // nothing to try, but the database has answered
		}
		if beat.goesOn(n, how.ahead, next.again, time.Now()) {
			continue
		}
		awoken := c.sleep(ctx, beat.wait(), next.retry)
		c.Metrics.Worker.Wakeups.WithLabelValues(string(awoken)).Inc()
		beat.awoke(awoken, time.Now())
	}
}

// next returns what to ask of the next claim.
func (c *Claimer) next(ctx context.Context, beat *rhythm) claiming {
	how := claiming{trial: c.Applier.Breaker.Pass(ctx)}
	how.ahead = beat.takeWoken() && !how.trial && c.Crew.working.Load() == 0 && c.Applier.Savepoints.Load() <= 0
	if c.Listener.listening.Load() {
		how.ask = beat.ask(how.ahead, time.Now())
	}
	return how
}

// failed opens the breaker, or waits a moment.
func (c *Claimer) failed(ctx context.Context, err error) {
	if c.Applier.Breaker.Failed(ctx, err) {
		wait := c.Backoff(0)
		c.Cfg.Logger.WarnContext(ctx, "claim failed", "error", err, "wait", wait)
		loops.Sleep(ctx, wait)
	}
}

// sleep waits until the time is over, a retry is due, or there is reason to look.
func (c *Claimer) sleep(ctx context.Context, wait time.Duration, retry time.Time) registry.Awoken {
	// A retry that is due by this clock, but was not claimed, is held or not yet due by the
	// database's clock. It is looked for at the usual pace.
	if until := time.Until(retry); !retry.IsZero() && until > 0 {
		wait = min(wait, until)
	}
	select {
	case <-c.Listener.Wake:
		return registry.Notified
	case <-c.Crew.Free:
		return registry.Finished
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return registry.Elapsed
}

// Drain claims until two claims in a row find nothing, with no work under way between them.
func (c *Claimer) Drain(ctx context.Context, work chan<- apply.Assignment) error {
	for quiet := 0; quiet < 2; {
		idle := c.Crew.working.Load() == 0
		n, _, err := c.claim(ctx, work, claiming{})
		switch {
		case err != nil:
			return err
		case n > 0:
			quiet = 0
		case idle:
			quiet++
		default:
			quiet = 0
			select {
			case <-c.Crew.Free:
			case <-ctx.Done():
			}
		}
	}
	return nil
}
