package projector

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// releaseTimeout bounds the giving back of leases when work is dropped or the projector stops.
const releaseTimeout = 5 * time.Second

// Projector keeps the read models of one consumer group up to date. Several may run in one process or in many; they share the campaigns among them.
type Projector struct {
	cfg         Config
	projections []*known // with the tables that are read
	sets        []*known // with each set of tables that they may have
	seen        atomic.Pointer[view]
	share       *share // of what is being rebuilt
	metrics     *metrics
	keeper      lease.Keeper
	host        string
	searchPath  string
	wake        chan struct{} // somebody appended
	woken       chan string   // the wait that a notification has named
	asked       atomic.Int64  // when the wait in force was asked for, by this clock in nanoseconds
	free        chan struct{} // a worker has finished an assignment
	entered     atomic.Bool   // the registry knows its projections
	listening   atomic.Bool   // notifications arrive
	small       atomic.Bool   // so were the events of the group read last
	unreadable  atomic.Int64  // how many more groups are read so that an event that cannot be read is found
	draining    bool          // Drain, not Run
	slabs       slabs
	mode        pgx.QueryExecMode    // of the pool's connections
	streams     bool                 // statements are prepared and stay so: not through PgBouncer
	notice      pgconn.NoticeHandler // of the pool's connections
	breaker     *breaker
	pulse       pulse.Pulse
	promises    promises
	alone       sync.RWMutex    // read by groups, written by suspects
	limit       *limit          // of the events in a group
	putsOff     bool            // inline applies look ahead to COMMIT, which is not to fail for their sake
	uncommitted atomic.Int64    // careful groups that are still to look ahead to COMMIT, because one has failed
	care        atomic.Int64    // groups that are still to be applied carefully
	longest     time.Duration   // timeout of any projection and event type
	tracer      *tracing.Tracer // nil: nobody follows traces
	inline      *tracing.Tracer // of [Projector.ApplyInline]; nil as tracer is

	claims       claims    // of the dispatcher
	cursor       string    // of the dispatcher
	lookedBehind time.Time // by the dispatcher
	average      float64   // events a campaign in the groups of late; 0: there were none
	applied      atomic.Int64
	drained      atomic.Bool
	working      atomic.Int64 // assignments not finished
	finishes     atomic.Int64 // assignments finished
	inTheWay     atomic.Bool  // the last claim passed campaigns that are held

	mu   sync.Mutex
	held map[string]*holding // by campaign
}

// Run registers the projections and applies events until ctx is cancelled. It then finishes or rolls back what it is applying, gives its leases back and
// returns nil. Failures of the database are waited out; an error is returned only for what waiting cannot mend: the registration is refused.
func (p *Projector) Run(ctx context.Context) error {
	if err := p.registerPatiently(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if p.cfg.Mode == ModeShadowOnly || p.cfg.Mode == ModeEnqueueOnly {
		return p.runMode(ctx)
	}
	// A group under way when ctx ends may still finish, and its leases live, for a while.
	patient, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// The first beat comes before the first claim: who dies of that has left a record, or would not be missed.
	p.beat(patient)
	var workers, others sync.WaitGroup
	work := make(chan assignment)
	for i := range p.cfg.Concurrency {
		loop := p.pulse.Loop(fmt.Sprintf("apply %d", i+1))
		workers.Go(func() { p.worker(pulse.With(patient, loop), ctx.Done(), work) })
	}
	others.Go(func() { p.keepLeases(pulse.With(patient, p.pulse.Loop("renew leases"))) })
	others.Go(func() { p.pruneLog(ctx) })
	others.Go(func() { p.tendRebuilds(ctx) })
	if !p.cfg.NoListen {
		others.Go(func() { p.listen(ctx) })
		others.Go(func() { p.endWaits(ctx) })
	}
	if p.cfg.GapRate > 0 {
		others.Go(func() { p.repairGaps(ctx) })
	}
	if p.cfg.VerifyRate > 0 {
		others.Go(func() { p.watch(ctx) })
	}
	if p.cfg.SnapshotEvery > 0 {
		others.Go(func() { p.keepSnapshots(ctx) })
	}
	p.dispatch(pulse.With(ctx, p.pulse.Loop("claim")), work)
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
// as well. Campaigns that other workers hold, and retries that are not due, are left to them. With [ModeShadowOnly] it goes round the queue once, and returns how many events would have been applied. It is for
// tests, tools and benchmarks.
func (p *Projector) Drain(ctx context.Context) (int, error) {
	if err := p.Register(ctx); err != nil {
		return 0, err
	}
	if p.cfg.Mode == ModeShadowOnly {
		return newShadow(p).round(ctx)
	}
	p.draining = true
	defer func() { p.draining = false }()
	before := p.applied.Load()
	for _, step := range []func(context.Context) error{p.tend, p.copyRanges, p.tend} {
		if err := step(ctx); err != nil {
			return 0, err
		}
	}
	patient, stop := context.WithCancel(ctx)
	defer stop()
	p.beat(patient)
	var keeper sync.WaitGroup
	keeper.Go(func() { p.keepLeases(patient) })
	g, inner := errgroup.WithContext(patient)
	work := make(chan assignment)
	for range p.cfg.Concurrency {
		g.Go(func() error {
			for a := range work {
				if err := p.process(inner, inner.Done(), a); err != nil {
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
	if err == nil {
		err = p.swapWhatIsReady(ctx)
	}
	return int(p.applied.Load() - before), err
}

// drain claims until two claims in a row, with no work under way between them, have found nothing.
func (p *Projector) drain(ctx context.Context, work chan<- assignment) error {
	defer p.claims.letGo()
	for quiet := 0; quiet < 2; {
		idle := p.working.Load() == 0
		n, _, err := p.claim(ctx, work, claiming{})
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
			case <-p.free:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// registerPatiently waits for the database. The breaker hears of each failure, so that a worker that cannot register is seen to keep away as well.
func (p *Projector) registerPatiently(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := p.Register(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			p.breaker.succeeded(ctx)
			return nil
		}
		if !IsInfrastructure(err) {
			return err
		}
		p.breaker.failed(ctx, err)
		wait := p.backoff(attempt)
		p.cfg.Logger.WarnContext(ctx, "cannot register yet", "error", err, "wait", wait)
		if !pause(ctx, wait) {
			return nil
		}
	}
}
