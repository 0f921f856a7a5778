package projector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// releaseTimeout bounds the giving back of leases when work is dropped or the projector stops.
const releaseTimeout = 5 * time.Second

// Projector keeps the read models of one consumer group up to date. Several may run in one process or in many; they share the campaigns among them.
type Projector struct {
	cfg         Config
	projections []*known
	known       map[string]*known
	names       []string
	metrics     *metrics
	keeper      lease.Keeper
	host        string
	searchPath  string
	wake        chan struct{} // somebody appended
	slabs       slabs

	cursor       string    // of the dispatcher
	lookedBehind time.Time // by the dispatcher
	average      float64   // events a campaign in the groups of late
	applied      atomic.Int64
	working      atomic.Int64 // assignments not finished

	mu   sync.Mutex
	held map[string]lease.Lease
}

// Run registers the projections and applies events until ctx is cancelled. It then finishes or rolls back what it is applying, gives its leases back and
// returns nil. Failures of the database are waited out; an error is returned only for what waiting cannot mend: the registration is refused.
func (p *Projector) Run(ctx context.Context) error {
	if err := p.registerPatiently(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	// A group under way when ctx ends may still finish, and its leases live, for a while.
	patient, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers, others sync.WaitGroup
	work := make(chan []*unit)
	for range p.cfg.Concurrency {
		workers.Go(func() { p.worker(patient, ctx.Done(), work) })
	}
	others.Go(func() { p.keepLeases(patient) })
	if !p.cfg.NoListen {
		others.Go(func() { p.listen(ctx) })
	}
	p.dispatch(ctx, work)
	close(work)
	expire := time.AfterFunc(p.cfg.ShutdownTimeout, stop)
	defer expire.Stop()
	workers.Wait()
	stop()
	others.Wait()
	p.forget(ctx)
	return nil
}

// Drain registers the projections and applies all that is there to apply, then returns the number of events applied, counting for each pair that catches up
// as well. Campaigns that other workers hold, and retries that are not due, are left to them. It is for tests, tools and benchmarks.
func (p *Projector) Drain(ctx context.Context) (int, error) {
	if err := p.Register(ctx); err != nil {
		return 0, err
	}
	before := p.applied.Load()
	patient, stop := context.WithCancel(ctx)
	defer stop()
	var keeper sync.WaitGroup
	keeper.Go(func() { p.keepLeases(patient) })
	g, inner := errgroup.WithContext(patient)
	work := make(chan []*unit)
	for range p.cfg.Concurrency {
		g.Go(func() error {
			for units := range work {
				if err := p.process(inner, inner.Done(), units); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(work)
		return p.drain(inner, work)
	})
	err := g.Wait()
	stop()
	keeper.Wait()
	p.forget(ctx)
	return int(p.applied.Load() - before), err
}

// drain claims until two claims in a row, with no work under way between them, have found nothing.
func (p *Projector) drain(ctx context.Context, work chan<- []*unit) error {
	for quiet := 0; quiet < 2; {
		idle := p.working.Load() == 0
		n, _, err := p.claim(ctx, work)
		switch {
		case err != nil:
			return err
		case n > 0:
			quiet = 0
		case idle:
			quiet++
		default:
			quiet = 0
			pause(ctx, time.Millisecond)
		}
	}
	return nil
}

// registerPatiently waits for the database.
func (p *Projector) registerPatiently(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := p.Register(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !IsInfrastructure(err) {
			return err
		}
		wait := p.backoff(attempt)
		p.cfg.Logger.WarnContext(ctx, "cannot register yet", "error", err, "wait", wait)
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// dispatch claims campaigns and hands them to the workers, one claim ahead of them.
func (p *Projector) dispatch(ctx context.Context, work chan<- []*unit) {
	idle, failures, announced := 0, 0, false
	for ctx.Err() == nil {
		n, retry, err := p.claim(ctx, work)
		if err != nil {
			if ctx.Err() == nil {
				wait := p.backoff(failures)
				failures++
				p.cfg.Logger.WarnContext(ctx, "claim failed", "error", err, "wait", wait)
				pause(ctx, wait)
			}
			continue
		}
		failures = 0
		if n > 0 {
			idle, announced = 0, false
			continue
		}
		wait := p.wait(idle)
		if wait >= listenAfter && !announced && !p.cfg.NoListen {
			// What was appended before the wait was known was not notified: claim once more.
			announced = true
			if err := lease.Wait(ctx, p.cfg.Pool, p.cfg.PollInterval*2); err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "polling only", "error", err)
			}
			continue
		}
		p.sleep(ctx, wait, retry)
		idle, announced = idle+1, false
	}
}

// wait is how long to wait after so many claims in vain: milliseconds after there was work, then ever longer up to the poll interval.
func (p *Projector) wait(idle int) time.Duration {
	wait := min(time.Millisecond<<min(idle, 20), p.cfg.PollInterval)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// sleep waits, unless an append or a due retry ends it.
func (p *Projector) sleep(ctx context.Context, wait time.Duration, retry time.Time) {
	if !retry.IsZero() {
		wait = min(wait, max(time.Until(retry), time.Millisecond))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-timer.C:
	}
}

// lookBehind is how often, under load, retries are looked for.
const lookBehind = 100 * time.Millisecond

// listenAfter is how long a wait must be to be worth a notification.
const listenAfter = 16 * time.Millisecond

// claim leases campaigns and hands them to the workers in assignments of about one group each. It returns how many it leased and when to look again.
func (p *Projector) claim(ctx context.Context, work chan<- []*unit) (n int, retry time.Time, err error) {
	start := time.Now()
	claimed, err := p.keeper.Claim(ctx, p.cfg.Pool, p.cursor, p.cfg.ClaimCampaigns)
	p.metrics.claim.Observe(time.Since(start).Seconds())
	if err != nil {
		return 0, time.Time{}, err
	}
	p.cursor = claimed.Cursor
	units := make([]*unit, len(claimed.Leases))
	for i, l := range claimed.Leases {
		units[i] = live(l)
	}
	n = len(units)
	p.hold(claimed.Leases)
	size := p.assignment()
	for len(units) > 0 {
		k := min(size, len(units))
		if !p.assign(ctx, work, units[:k]) {
			p.giveBack(ctx, units)
			return n, time.Time{}, ctx.Err()
		}
		units = units[k:]
	}
	if n > 0 && time.Since(p.lookedBehind) < lookBehind {
		return n, time.Time{}, nil
	}
	p.lookedBehind = time.Now()
	behind, due, err := p.claimDeferred(ctx, work)
	return n + behind, earliest(claimed.Retry, due), err
}

// claimDeferred leases campaigns with retries due. The database's clock decides which are.
func (p *Projector) claimDeferred(ctx context.Context, work chan<- []*unit) (n int, due time.Time, err error) {
	claimed, err := p.keeper.ClaimDeferred(ctx, p.cfg.Pool, p.names, p.cfg.ClaimCampaigns)
	if err != nil || len(claimed.Leases) == 0 {
		return 0, claimed.Retry, err
	}
	p.hold(claimed.Leases)
	units, err := p.duePairs(ctx, claimed.Leases)
	if err != nil {
		p.giveBackLeases(ctx, claimed.Leases)
		return 0, time.Time{}, err
	}
	if !p.assign(ctx, work, units) {
		p.giveBackLeases(ctx, claimed.Leases)
		return 0, time.Time{}, ctx.Err()
	}
	return len(units), claimed.Retry, nil
}

func (p *Projector) assign(ctx context.Context, work chan<- []*unit, units []*unit) bool {
	p.working.Add(1)
	select {
	case work <- units:
		return true
	case <-ctx.Done():
		p.working.Add(-1)
		return false
	}
}

// assignment is how many campaigns make about one group, going by those of late.
func (p *Projector) assignment() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(max(1, math.Ceil(float64(p.cfg.GroupEvents)/p.average)))
}

func (p *Projector) observe(campaigns, events int) {
	if campaigns == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.average += 0.2 * (max(1, float64(events)/float64(campaigns)) - p.average)
}

// worker applies assignments until there are no more.
func (p *Projector) worker(ctx context.Context, stopping <-chan struct{}, work <-chan []*unit) {
	failures := 0
	for units := range work {
		err := p.process(ctx, stopping, units)
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		wait := p.backoff(failures)
		failures++
		p.cfg.Logger.WarnContext(ctx, "group not applied", "error", err, "wait", wait)
		pause(ctx, wait)
	}
}

// process applies an assignment, each unit once or, if it was cut off by others' events, once more. What it does not reach it gives back.
func (p *Projector) process(ctx context.Context, stopping <-chan struct{}, units []*unit) error {
	all := units
	defer func() {
		if len(units) > 0 {
			p.giveBack(ctx, units)
		}
		p.letGo(all)
		p.working.Add(-1)
	}()
	p.cfg.OnStep(StepClaimed)
	for len(units) > 0 {
		select {
		case <-stopping:
			return nil
		default:
		}
		rest, err := p.group(ctx, units)
		if err != nil {
			return err
		}
		units = rest
	}
	return nil
}

// group applies one group and returns the units that are left.
func (p *Projector) group(ctx context.Context, units []*unit) (rest []*unit, err error) {
	start := time.Now()
	n, done, err := p.applyTogether(ctx, units)
	switch {
	case err == nil:
		rest = units[len(done):]
		if last := done[len(done)-1]; last.more && !p.yields(last) {
			rest = units[len(done)-1:]
		}
	case IsInfrastructure(err) && !errors.Is(err, lease.ErrLost):
		return nil, err
	default:
		if !errors.Is(err, lease.ErrLost) {
			p.cfg.Logger.WarnContext(ctx, "group failed, isolating the cause", "campaigns", len(units), "error", err)
		}
		if n, err = p.isolate(ctx, units, p.cfg.GroupEvents); err != nil {
			return nil, err
		}
	}
	p.applied.Add(int64(n))
	p.metrics.applied.Add(float64(n))
	p.metrics.groups.Inc()
	p.metrics.apply.Observe(time.Since(start).Seconds())
	p.observe(len(units)-len(rest), n)
	return rest, nil
}

// applyTogether applies as many of the units as a group holds, in one transaction.
func (p *Projector) applyTogether(ctx context.Context, units []*unit) (n int, done []*unit, err error) {
	t, err := p.begin(ctx, units, p.cfg.GroupEvents)
	if err != nil {
		return 0, nil, err
	}
	defer t.abort(ctx)
	p.cfg.OnStep(StepRead)
	if err := t.applyAll(ctx); err != nil {
		return 0, nil, err
	}
	p.cfg.OnStep(StepApplied)
	for _, u := range t.units {
		n += len(u.events)
		u.groups++
	}
	if err := t.finish(ctx, p.yields); err != nil {
		return 0, nil, err
	}
	p.cfg.OnStep(StepCommitted)
	return n, t.units, nil
}

// yields says whether a unit that has more to do makes way for others: one that was merely cut off at the end of a group goes on, once.
func (p *Projector) yields(u *unit) bool { return u.groups > 1 }

// jitter is a factor of 1 ± 0.1.
func (p *Projector) jitter() float64 { return 0.9 + 0.2*rand.Float64() }

// backoff is the wait before going on after a failure of the infrastructure: full jitter, up to 5 seconds.
func (p *Projector) backoff(failures int) time.Duration {
	limit := min(50*time.Millisecond<<min(failures, 10), 5*time.Second)
	return time.Millisecond + time.Duration(rand.Int64N(int64(limit)))
}

// pause waits; it returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *Projector) String() string {
	return fmt.Sprintf("projector of group %s (%s)", p.cfg.ConsumerGroup, p.keeper.Owner)
}
