package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/across"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/claim"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/scheduler"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Projector keeps the read models of one consumer group up to date. Several may run in one process
// or in many; they share the campaigns.
type Projector struct {
	base       *registry.Base
	registrar  *registry.Registrar
	listener   *claim.Listener
	claimer    *claim.Claimer
	crew       *claim.Crew
	holder     *apply.Holder
	applier    *apply.Applier
	inliner    *apply.Inliner
	rebuilder  *rebuild.Rebuilder
	replayer   *replay.Replayer
	maintainer *rebuild.Maintainer
	across     *across.Runner
	scheduler  *scheduler.Scheduler
}

// New checks the configuration and returns a projector. It does not touch the database.
func New(cfg Config) (*Projector, error) {
	cfg, err := complete(cfg)
	list, sets, indexErr := registry.Index(cfg.Projections, cfg.Catalogue, cfg.OnFailure, cfg.Schema)
	if err := errors.Join(err, indexErr); err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	metrics, err := registry.NewMetrics(cfg.Registerer, list)
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	connect := cfg.Pool.Config().ConnConfig
	b := &registry.Base{
		Cfg: registry.Settings(cfg), Projections: list, Sets: sets, Metrics: metrics, Host: host,
		Keeper: lease.Keeper{
			Group: cfg.ConsumerGroup, Owner: uuid.Must(uuid.NewV7()).String(), TTL: cfg.LeaseTTL,
			Knows: versions(cfg.Projections), Statements: statements(list),
		},
		SearchPath: registry.LiveTables.SearchPath("", cfg.Schema),
		Longest:    registry.LongestTimeout(list),
		Mode:       connect.DefaultQueryExecMode,
		Streams:    connect.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement,
		Notice:     connect.OnNotice,
		Tracer: tracing.New(cfg.TracerProvider, "apply "+cfg.ConsumerGroup, trace.SpanKindConsumer,
			attribute.String("tidemark.consumer_group", cfg.ConsumerGroup)),
	}
	b.Promises = b.Bounds()
	p := &Projector{
		base: b, registrar: &registry.Registrar{Base: b}, listener: claim.NewListener(b),
		holder: apply.NewHolder(b),
	}
	p.applier = &apply.Applier{
		Base: b, Holder: p.holder, Pace: apply.NewPace(b.Cfg), Share: &apply.Share{Workers: cfg.Concurrency, Most: 1},
		Breaker: apply.NewBreaker(cfg.Logger, metrics.Worker.Breaker, b.Backoff),
	}
	p.crew = &claim.Crew{Base: b, Holder: p.holder, Applier: p.applier, Free: make(chan struct{}, 1)}
	p.claimer = &claim.Claimer{Base: b, Holder: p.holder, Applier: p.applier, Crew: p.crew, Listener: p.listener}
	p.inliner = &apply.Inliner{Base: b, Applier: p.applier, Inline: tracing.New(
		cfg.TracerProvider, "apply inline "+cfg.ConsumerGroup, trace.SpanKindInternal,
		attribute.String("tidemark.consumer_group", cfg.ConsumerGroup),
	)}
	if p.across = across.NewRunner(b, p.applier); !p.across.Idle() {
		p.listener.Also = p.across.Wake
	}
	p.replayer = &replay.Replayer{Base: b, Applier: p.applier}
	p.maintainer = &rebuild.Maintainer{Base: b, Listener: p.listener}
	p.rebuilder = &rebuild.Rebuilder{Base: b, Applier: p.applier, Registrar: p.registrar, Replayer: p.replayer}
	p.scheduler, err = scheduler.New(scheduler.Config{
		Pool: cfg.Pool, Logger: cfg.Logger, Registerer: cfg.Registerer, PollInterval: cfg.PollInterval,
		Timeout: cfg.LeaseTTL, Pulse: &b.Pulse, Listener: p.listener,
	})
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	return p, nil
}

// versions returns the versions of the program's projections as JSON, by name, for other workers.
func versions(code []projection.Projection) string {
	byName := map[string][]int{}
	for _, k := range code {
		s := k.Spec()
		byName[s.Name] = append(byName[s.Name], s.Version)
	}
	raw, _ := json.Marshal(byName) // names and numbers
	return string(raw)
}

// statements returns the hashes of the statements of SQL files as JSON, by name and version.
func statements(code []*registry.Projection) string {
	hashes := map[string]string{}
	for _, k := range code {
		if hash := kind.Statements(k.Projection); hash != "" {
			hashes[k.Described.Name+"/"+strconv.Itoa(k.Described.Version)] = hash
		}
	}
	raw, _ := json.Marshal(hashes) // names, numbers and hashes
	return string(raw)
}

// Run registers the projections, applies events, and makes appends that [journal.Journal.AppendAt] has
// scheduled, until ctx is cancelled. It then finishes or rolls back work under way, releases its
// leases and returns nil. It waits out failures of the database. It returns an error only if the
// registration is refused.
func (p *Projector) Run(ctx context.Context) error {
	if err := p.registerPatiently(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	switch p.base.Cfg.Mode {
	case projection.ModeShadowOnly:
		apply.NewShadow(p.applier).Run(ctx)
		return nil
	case projection.ModeEnqueueOnly:
		p.scheduler.Run(ctx)
		return nil
	}
	// A group under way when ctx ends may finish within ShutdownTimeout, and its leases live until then.
	patient, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// Beat before the first claim, so a worker that dies of that claim has left a record.
	p.holder.Beat(patient)
	var workers, others sync.WaitGroup
	work := make(chan apply.Assignment)
	for i := range p.base.Cfg.Concurrency {
		loop := p.base.Pulse.Loop(fmt.Sprintf("apply %d", i+1))
		workers.Go(func() { p.crew.Worker(loops.With(patient, loop), ctx.Done(), work) })
	}
	if !p.across.Idle() {
		workers.Go(func() { p.across.Run(loops.With(ctx, p.base.Pulse.Loop("across campaigns")), patient) })
	}
	others.Go(func() { p.holder.KeepLeases(loops.With(patient, p.base.Pulse.Loop("renew leases"))) })
	others.Go(func() { p.maintainer.PruneLog(ctx) })
	others.Go(func() { p.rebuilder.Run(ctx) })
	others.Go(func() { p.scheduler.Run(ctx) })
	if !p.base.Cfg.NoListen {
		others.Go(func() { p.listener.Listen(ctx) })
		others.Go(func() { p.listener.EndWaits(ctx) })
	}
	if p.base.Cfg.GapRate > 0 {
		others.Go(func() { p.maintainer.RepairGaps(ctx) })
	}
	p.claimer.Dispatch(loops.With(ctx, p.base.Pulse.Loop("claim")), work)
	close(work)
	expire := time.AfterFunc(p.base.Cfg.ShutdownTimeout, stop)
	defer expire.Stop()
	workers.Wait()
	stop()
	others.Wait()
	p.holder.Forget(ctx)
	return nil
}

// Drain registers the projections, applies everything there is, and returns the number of events
// applied, counting again for each failed campaign that catches up. It leaves out campaigns that
// other workers hold and retries that are not due. With [projection.ModeShadowOnly] it goes around the queue
// once, and returns how many events would have been applied. It is for tests, tools and benchmarks.
func (p *Projector) Drain(ctx context.Context) (int, error) {
	if err := p.Register(ctx); err != nil {
		return 0, err
	}
	if p.base.Cfg.Mode == projection.ModeShadowOnly {
		return apply.NewShadow(p.applier).Round(ctx)
	}
	p.base.Draining = true
	defer func() { p.base.Draining = false }()
	before := p.base.Applied.Load()
	for _, step := range []func(context.Context) error{p.rebuilder.Step, p.rebuilder.CopyRanges, p.rebuilder.Step} {
		if err := step(ctx); err != nil {
			return 0, err
		}
	}
	patient, stop := context.WithCancel(ctx)
	defer stop()
	p.holder.Beat(patient)
	var keeper sync.WaitGroup
	keeper.Go(func() { p.holder.KeepLeases(patient) })
	g, inner := errgroup.WithContext(patient)
	work := make(chan apply.Assignment)
	for range p.base.Cfg.Concurrency {
		g.Go(func() error {
			for a := range work {
				if err := p.crew.Process(inner, inner.Done(), a); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(work)
		return p.claimer.Drain(inner, work)
	})
	err := g.Wait()
	stop()
	keeper.Wait()
	p.holder.Forget(ctx)
	if err == nil && !p.across.Idle() {
		err = p.across.Drain(ctx)
	}
	if err == nil {
		err = p.rebuilder.SwapWhatIsReady(ctx)
	}
	return int(p.base.Applied.Load() - before), err
}

// registerPatiently waits for the database. Each failure counts for the breaker, so metrics show it.
func (p *Projector) registerPatiently(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := p.Register(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			p.applier.Breaker.Succeeded(ctx)
			return nil
		}
		if _, encoding := errors.AsType[*event.EncodingError](err); encoding || !failure.IsInfrastructure(err) {
			return err
		}
		p.applier.Breaker.Failed(ctx, err)
		wait := p.base.Backoff(attempt)
		p.base.Cfg.Logger.WarnContext(ctx, "cannot register yet", "error", err, "wait", wait)
		if !loops.Sleep(ctx, wait) {
			return nil
		}
	}
}
