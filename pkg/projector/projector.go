package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/pulse"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/lease"
)

// Projector keeps the read models of one consumer group up to date. Several may run in one process or in many; they share the campaigns among them.
type Projector struct {
	base       *base
	registrar  *registrar
	listener   *listener
	claimer    *claimer
	crew       *crew
	holder     *holder
	applier    *applier
	inliner    *inliner
	rebuilder  *rebuilder
	replayer   *replayer
	maintainer *maintainer
}

// New checks the configuration and returns a projector. It does not touch the database.
func New(cfg Config) (*Projector, error) {
	cfg, err := complete(cfg)
	list, sets, indexErr := index(cfg.Projections, cfg.Catalogue, cfg.OnFailure, cfg.Schema)
	if err := errors.Join(err, indexErr); err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	metrics, err := newMetrics(cfg.Registerer, list)
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	pool := cfg.Pool.Config()
	connect := pool.ConnConfig
	b := &base{
		cfg: settings(cfg), projections: list, sets: sets, metrics: metrics, host: host,
		keeper:     lease.Keeper{Group: cfg.ConsumerGroup, Owner: id.String(), TTL: cfg.LeaseTTL, Knows: versions(cfg.Projections)},
		searchPath: liveTables.searchPath("", cfg.Schema),
		longest:    longestTimeout(list),
		mode:       connect.DefaultQueryExecMode,
		streams:    connect.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement,
		notice:     connect.OnNotice,
		tracer:     tracing.New(cfg.TracerProvider, "apply "+cfg.ConsumerGroup, trace.SpanKindConsumer, attribute.String("tidemark.consumer_group", cfg.ConsumerGroup)),
	}
	b.promises = b.bounds()
	breaker := newBreaker(cfg.Logger, metrics.breaker, b.backoff)
	share, pace := &share{workers: cfg.Concurrency, most: 1}, newPace(settings(cfg))
	p := &Projector{base: b, registrar: &registrar{b}, listener: newListener(b), holder: newHolder(b)}
	p.applier = &applier{base: b, holder: p.holder, pace: pace, breaker: breaker, share: share}
	p.crew = &crew{base: b, holder: p.holder, applier: p.applier, breaker: breaker, free: make(chan struct{}, 1)}
	p.claimer = &claimer{
		base: b, holder: p.holder, applier: p.applier, crew: p.crew, listener: p.listener, pace: pace, breaker: breaker, share: share,
		claims: claims{spare: int(pool.MaxConns) - cfg.Concurrency},
	}
	p.inliner = &inliner{base: b, applier: p.applier, inline: tracing.New(
		cfg.TracerProvider, "apply inline "+cfg.ConsumerGroup, trace.SpanKindInternal, attribute.String("tidemark.consumer_group", cfg.ConsumerGroup),
	)}
	p.replayer = &replayer{base: b, applier: p.applier}
	p.maintainer = &maintainer{base: b, listener: p.listener}
	p.rebuilder = &rebuilder{
		base: b, applier: p.applier, registrar: p.registrar, replayer: p.replayer, maintainer: p.maintainer, share: share,
	}
	return p, nil
}

// versions writes down which versions of which projections there is code of, for others to read.
func versions(code []Projection) string {
	byName := map[string][]int{}
	for _, k := range code {
		s := k.Spec()
		byName[s.Name] = append(byName[s.Name], s.Version)
	}
	raw, _ := json.Marshal(byName) // names and numbers
	return string(raw)
}

// Run registers the projections and applies events until ctx is cancelled. It then finishes or rolls back what it is applying, gives its leases back and
// returns nil. Failures of the database are waited out; an error is returned only for what waiting cannot mend: the registration is refused.
func (p *Projector) Run(ctx context.Context) error {
	if err := p.registerPatiently(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if p.base.cfg.Mode == ModeShadowOnly || p.base.cfg.Mode == ModeEnqueueOnly {
		return p.runMode(ctx)
	}
	// A group under way when ctx ends may still finish, and its leases live, for a while.
	patient, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// The first beat comes before the first claim: who dies of that has left a record, or would not be missed.
	p.holder.beat(patient)
	var workers, others sync.WaitGroup
	work := make(chan assignment)
	for i := range p.base.cfg.Concurrency {
		loop := p.base.pulse.Loop(fmt.Sprintf("apply %d", i+1))
		workers.Go(func() { p.crew.worker(pulse.With(patient, loop), ctx.Done(), work) })
	}
	others.Go(func() { p.holder.keepLeases(pulse.With(patient, p.base.pulse.Loop("renew leases"))) })
	others.Go(func() { p.maintainer.pruneLog(ctx) })
	others.Go(func() { p.maintainer.mendClock(ctx) })
	others.Go(func() { p.rebuilder.tendRebuilds(ctx) })
	if !p.base.cfg.NoListen {
		others.Go(func() { p.listener.listen(ctx) })
		others.Go(func() { p.listener.endWaits(ctx) })
	}
	if p.base.cfg.GapRate > 0 {
		others.Go(func() { p.maintainer.repairGaps(ctx) })
	}
	if p.base.cfg.VerifyRate > 0 {
		others.Go(func() { p.replayer.watch(ctx) })
	}
	if p.base.cfg.SnapshotEvery > 0 {
		others.Go(func() { p.replayer.keepSnapshots(ctx) })
	}
	p.claimer.dispatch(pulse.With(ctx, p.base.pulse.Loop("claim")), work)
	close(work)
	expire := time.AfterFunc(p.base.cfg.ShutdownTimeout, stop)
	defer expire.Stop()
	workers.Wait()
	stop()
	others.Wait()
	p.holder.forget(ctx)
	return nil
}

// Drain registers the projections and applies all that is there to apply, then returns the number of events applied, counting for each pair that catches up
// as well. Campaigns that other workers hold, and retries that are not due, are left to them. With [ModeShadowOnly] it goes round the queue once, and returns how many events would have been applied. It is for
// tests, tools and benchmarks.
func (p *Projector) Drain(ctx context.Context) (int, error) {
	if err := p.Register(ctx); err != nil {
		return 0, err
	}
	if p.base.cfg.Mode == ModeShadowOnly {
		return newShadow(p.applier).round(ctx)
	}
	p.base.draining = true
	defer func() { p.base.draining = false }()
	before := p.base.applied.Load()
	for _, step := range []func(context.Context) error{p.rebuilder.tend, p.rebuilder.copyRanges, p.rebuilder.tend} {
		if err := step(ctx); err != nil {
			return 0, err
		}
	}
	patient, stop := context.WithCancel(ctx)
	defer stop()
	p.holder.beat(patient)
	var keeper sync.WaitGroup
	keeper.Go(func() { p.holder.keepLeases(patient) })
	g, inner := errgroup.WithContext(patient)
	work := make(chan assignment)
	for range p.base.cfg.Concurrency {
		g.Go(func() error {
			for a := range work {
				if err := p.crew.process(inner, inner.Done(), a); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(work)
		return p.claimer.drain(inner, work)
	})
	err := g.Wait()
	stop()
	keeper.Wait()
	p.holder.forget(ctx)
	if err == nil {
		err = p.rebuilder.swapWhatIsReady(ctx)
	}
	return int(p.base.applied.Load() - before), err
}

// registerPatiently waits for the database. The breaker hears of each failure, so that a worker that cannot register is seen to keep away as well.
func (p *Projector) registerPatiently(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := p.Register(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			p.crew.breaker.succeeded(ctx)
			return nil
		}
		if !IsInfrastructure(err) {
			return err
		}
		p.crew.breaker.failed(ctx, err)
		wait := p.base.backoff(attempt)
		p.base.cfg.Logger.WarnContext(ctx, "cannot register yet", "error", err, "wait", wait)
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// runMode is what Run does in the modes that apply nothing.
func (p *Projector) runMode(ctx context.Context) error {
	if p.base.cfg.Mode == ModeShadowOnly {
		newShadow(p.applier).run(ctx)
		return nil
	}
	<-ctx.Done()
	return nil
}
